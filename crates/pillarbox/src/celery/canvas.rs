//! Signatures combined to workflows, as in Celery's canvas: chain, group and chord. `celery/messages.rs` turns them into
//! messages.

use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use uuid::Uuid;

use super::task::{Form, Task};

pub(super) const CHAIN: &str = "celery.chain";
pub(super) const GROUP: &str = "celery.group";
pub(super) const CHORD: &str = "celery.chord";

/// A task or a workflow of tasks. It can be sent, or be a part of another workflow.
#[derive(Debug, Clone)]
pub struct Signature(pub(super) Kind);

#[derive(Debug, Clone)]
pub(super) enum Kind {
    Task(Box<Task>),
    Chain(Vec<Signature>),
    Group(Group),
    Chord(Group, Box<Signature>),
}

#[derive(Debug, Clone)]
pub(super) struct Group {
    pub(super) id: Option<String>,
    pub(super) members: Vec<Signature>,
}

impl From<Task> for Signature {
    fn from(task: Task) -> Self {
        Self(Kind::Task(Box::new(task)))
    }
}

/// Runs tasks one after another. Each gets the result of the one before it as its first argument, unless it is immutable.
///
/// A group that is followed by a task becomes a chord, as in Celery, and so needs a result backend.
///
/// ```
/// use pillarbox::celery::{Task, chain};
/// let order = chain([Task::new("orders.charge").arg(42), Task::new("orders.ship"), Task::new("orders.notify")]);
/// ```
pub fn chain(tasks: impl IntoIterator<Item = impl Into<Signature>>) -> Signature {
    Signature(Kind::Chain(tasks.into_iter().map(Into::into).collect()))
}

/// Runs tasks concurrently, with one message for each.
pub fn group(tasks: impl IntoIterator<Item = impl Into<Signature>>) -> Signature {
    Signature(Kind::Group(Group { id: None, members: tasks.into_iter().map(Into::into).collect() }))
}

/// Runs the tasks of the header concurrently, then the body with the list of their results. Workers need a result backend.
///
/// The number of results that the body waits for is in the result backend, which only workers can reach. So a single message
/// is sent, to a task built into Celery that starts the header from inside a worker. It is routed as the header's first task.
pub fn chord(header: impl IntoIterator<Item = impl Into<Signature>>, body: impl Into<Signature>) -> Signature {
    let members = header.into_iter().map(Into::into).collect();
    Signature(Kind::Chord(Group { id: None, members }, Box::new(body.into())))
}

impl Signature {
    /// Adds a callback that runs when a task of the workflow fails. As in Celery, that is any task of a chain or a group, and
    /// the body of a chord, which fails with its header.
    #[must_use]
    pub fn on_error(mut self, errback: impl Into<Self>) -> Self {
        let errback = errback.into();
        self.each_that_fails(&mut |task| task.options.link_error.push(errback.clone()));
        self
    }

    /// Adds a stamp to each task of the workflow, see [`Task::stamp`].
    #[must_use]
    pub fn stamp(mut self, name: &str, value: impl Serialize) -> Self {
        let value = to_raw_value(&value).map_err(|error| format!("stamp {name:?} cannot be written as JSON: {error}"));
        self.each(&mut |task| match &value {
            Ok(value) => task.stamp_raw(name, value),
            Err(problem) => _ = task.problem.get_or_insert_with(|| problem.clone()),
        });
        self
    }

    /// Gives an id to each task and group that has none.
    pub(super) fn freeze(&mut self) {
        self.each(&mut |task| _ = task.options.task_id.get_or_insert_with(new_id));
        self.name_groups();
    }

    fn name_groups(&mut self) {
        match &mut self.0 {
            Kind::Task(_) => {}
            Kind::Chain(steps) => steps.iter_mut().for_each(Self::name_groups),
            Kind::Group(group) => group.name(),
            Kind::Chord(header, body) => {
                header.name();
                body.name_groups();
            }
        }
    }

    /// Visits every task in order. A chord's body comes after its header.
    pub(super) fn each(&mut self, visit: &mut dyn FnMut(&mut Task)) {
        match &mut self.0 {
            Kind::Task(task) => visit(task),
            Kind::Chain(steps) => steps.iter_mut().for_each(|step| step.each(visit)),
            Kind::Group(group) => group.members.iter_mut().for_each(|member| member.each(visit)),
            Kind::Chord(header, body) => {
                header.members.iter_mut().for_each(|member| member.each(visit));
                body.each(visit);
            }
        }
    }

    fn each_that_fails(&mut self, visit: &mut dyn FnMut(&mut Task)) {
        match &mut self.0 {
            Kind::Task(task) => visit(task),
            Kind::Chain(steps) => steps.iter_mut().for_each(|step| step.each_that_fails(visit)),
            Kind::Group(group) => group.members.iter_mut().for_each(|member| member.each_that_fails(visit)),
            Kind::Chord(_, body) => body.each_that_fails(visit),
        }
    }

    /// Returns the first task, which decides the routing.
    pub(super) fn first_task(&self) -> Option<&Task> {
        match &self.0 {
            Kind::Task(task) => Some(task),
            Kind::Chain(steps) => steps.first()?.first_task(),
            Kind::Group(group) | Kind::Chord(group, _) => group.members.first()?.first_task(),
        }
    }

    /// Returns the id of the result: that of the last task, or of the group. Frozen signatures have one.
    pub(super) fn result_id(&self) -> Option<&str> {
        match &self.0 {
            Kind::Task(task) => task.options.task_id.as_deref(),
            Kind::Chain(steps) => match &steps.last()?.0 {
                // In a chain, a group with one member is that member.
                Kind::Group(group) if group.members.len() == 1 => group.members.first()?.result_id(),
                _ => steps.last()?.result_id(),
            },
            Kind::Group(group) => group.id.as_deref(),
            Kind::Chord(_, body) => body.result_id(),
        }
    }
}

impl Group {
    fn name(&mut self) {
        self.id.get_or_insert_with(new_id);
        self.members.iter_mut().for_each(Signature::name_groups);
    }

    /// Returns its members, with nested groups flattened.
    pub(super) fn flat(self) -> Vec<Signature> {
        let flatten = |member: Signature| match member.0 {
            Kind::Group(group) => group.flat(),
            _ => vec![member],
        };
        self.members.into_iter().flat_map(flatten).collect()
    }
}

pub(super) fn new_id() -> String {
    Uuid::new_v4().to_string()
}

impl Serialize for Signature {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Kind::Task(task) => task.serialize(serializer),
            Kind::Chain(steps) if steps.is_empty() => {
                Err(S::Error::custom("the chain has no tasks; give it at least one"))
            }
            Kind::Chain(tasks) => form(CHAIN, Tasks { tasks }, None, "chain").serialize(serializer),
            Kind::Group(group) => group.serialize(serializer),
            Kind::Chord(header, body) => {
                let kwargs = ChordKwargs { kwargs: NoKwargs {}, header, body };
                form(CHORD, kwargs, header.id.as_deref(), "chord").serialize(serializer)
            }
        }
    }
}

impl Serialize for Group {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.members.is_empty() {
            return Err(S::Error::custom("the group has no tasks; give it at least one"));
        }
        form(GROUP, Tasks { tasks: &self.members }, self.id.as_deref(), "group").serialize(serializer)
    }
}

fn form<'a, K>(
    task: &'a str,
    kwargs: K,
    task_id: Option<&'a str>,
    subtask_type: &'static str,
) -> Form<'a, K, GroupOptions<'a>> {
    let no_args: &[Box<RawValue>] = &[];
    let options = GroupOptions { task_id };
    Form { task, args: no_args, kwargs, options, subtask_type: Some(subtask_type), immutable: false }
}

#[derive(Serialize)]
struct Tasks<'a> {
    tasks: &'a [Signature],
}

#[derive(Serialize)]
struct ChordKwargs<'a> {
    kwargs: NoKwargs,
    header: &'a Group,
    body: &'a Signature,
}

#[derive(Serialize)]
struct NoKwargs {}

#[derive(Serialize)]
pub(super) struct GroupOptions<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    task_id: Option<&'a str>,
}
