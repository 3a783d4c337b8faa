//! Turns a signature into messages: one for a task or a chain, one for each member of a group. The rest travels in the
//! messages, and workers send it when its turn comes.

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::value::{RawValue, to_raw_value};

use super::canvas::{CHORD, Group, Kind, Signature, new_id};
use super::options::{Moment, Options, Seconds, iso};
use super::protocol::Embed;
use super::recorded::{Body, Recorded};
use super::task::Task;
use crate::event::{AGGREGATE_LIMIT, Event, Headers, InvalidEvent, with_trace_context};

/// The ids of a workflow that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sent {
    /// The id of the result: that of the task, of a chain's last task, of a chord's body, or of a group.
    pub id: String,
    /// The ids of all tasks, in the order in which they were given. A chord's body comes after its header.
    pub tasks: Vec<String>,
}

impl Task {
    /// Returns the task's id and the event that carries the task. [`send_task`](super::send_task) emits it.
    ///
    /// # Errors
    /// If no worker could run the task, or no database could store it.
    pub fn into_event(self) -> Result<(String, Event), InvalidEvent> {
        let (sent, events) = Signature::from(self).into_events()?;
        let event = events.into_iter().next().ok_or_else(|| refused("", "there is nothing to send"))?;
        Ok((sent.id, event))
    }
}

impl Signature {
    /// Returns the workflow's ids and the events that carry it. [`send`](super::send) emits them.
    ///
    /// # Errors
    /// If no worker could run a task, or no database could store it.
    pub fn into_events(self) -> Result<(Sent, Vec<Event>), InvalidEvent> {
        self.into_events_at(Utc::now())
    }

    pub(super) fn into_events_at(mut self, now: DateTime<Utc>) -> Result<(Sent, Vec<Event>), InvalidEvent> {
        self.freeze();
        let mut tasks = Vec::new();
        self.each(&mut |task| tasks.extend(task.options.task_id.clone()));
        let id =
            self.result_id().ok_or_else(|| refused("", "a workflow has no tasks; give it at least one"))?.to_owned();
        let mut outgoing = Outgoing { now, events: Vec::new() };
        match self.0 {
            Kind::Group(group) => outgoing.group(group)?,
            _ => outgoing.chain(vec![self])?,
        }
        Ok((Sent { id, tasks }, outgoing.events))
    }
}

/// The messages so far.
struct Outgoing {
    now: DateTime<Utc>,
    events: Vec<Event>,
}

impl Outgoing {
    fn chain(&mut self, chain: Vec<Signature>) -> Result<(), InvalidEvent> {
        let mut rest = reversed(chain);
        match rest.pop().map(|first| first.0) {
            Some(Kind::Task(mut task)) => {
                task.options.chain.splice(0..0, rest);
                self.task(&task, None)
            }
            Some(Kind::Chord(header, body)) => self.chord(header, *body, rest),
            // Nothing follows the group, else it would be a chord.
            Some(Kind::Group(group)) => self.group(group),
            Some(Kind::Chain(_)) | None => Err(refused("", "a chain has no tasks; give it at least one")),
        }
    }

    fn group(&mut self, group: Group) -> Result<(), InvalidEvent> {
        let id = group.id.clone();
        let members = group.flat();
        if members.is_empty() {
            return Err(refused("", "a group has no tasks; give it at least one"));
        }
        for (index, member) in members.into_iter().enumerate() {
            let mut steps = reversed(vec![member]);
            // A member of several tasks is done when its last one is.
            if let Some(last) = steps.first_mut().and_then(Signature::result_task) {
                last.options.group = id.clone().map(|id| (id, index));
            }
            steps.reverse();
            self.chain(steps)?;
        }
        Ok(())
    }

    /// Adds a message to Celery's built-in task that starts a chord from inside a worker.
    fn chord(&mut self, header: Group, body: Signature, rest: Vec<Signature>) -> Result<(), InvalidEvent> {
        let header = header.flat();
        let Some(first) = header.iter().find_map(Signature::first_task) else {
            return Err(refused("", "the header of a chord has no tasks; give it at least one"));
        };
        let route = first.name.clone();
        let options = Options {
            task_id: Some(new_id()),
            // Its result is not JSON, and no caller waits for it.
            ignore_result: Some(true),
            queue: first.options.queue.clone(),
            exchange: first.options.exchange.clone(),
            routing_key: first.options.routing_key.clone(),
            priority: first.options.priority,
            ..Options::default()
        };
        let mut starter = Task::new(CHORD).kwarg("header", header).kwarg("body", followed(body, rest));
        starter.options = options;
        self.task(&starter, Some(route))
    }

    fn task(&mut self, task: &Task, route: Option<String>) -> Result<(), InvalidEvent> {
        task.check().map_err(|why| refused(&task.name, why))?;
        let id = task.options.task_id.clone().unwrap_or_default();
        let mut message = message(task, &id, self.now).map_err(|error| refused(&task.name, error))?;
        message.route_name = route.clone().map(Into::into);
        let aggregate_id: String = id.chars().take(AGGREGATE_LIMIT).collect();
        let event_type = route.unwrap_or_else(|| task.name.clone());
        let mut event = Event::task(aggregate_id, event_type).payload(&message);
        if let Some(due) = due(&task.options, self.now) {
            event = event.deliver_at(due);
        }
        self.events.push(event);
        Ok(())
    }
}

/// Returns when to send the message, if it is held back.
fn due(options: &Options, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let margin = TimeDelta::from_std(options.hold?).ok()?;
    let due = options.start?.after(now)?.checked_sub_signed(margin)?;
    (due > now).then_some(due)
}

/// Returns the steps of a chain as they are sent, in reverse order. As in Celery, nested chains are flattened, a group with one
/// member is that member, and a group that is followed by a task is a chord.
fn reversed(chain: Vec<Signature>) -> Vec<Signature> {
    let mut flat = Vec::new();
    chain.into_iter().for_each(|step| splice(step, &mut flat));
    let mut steps: Vec<Signature> = Vec::new();
    while let Some(step) = flat.pop() {
        let chord = match step.0 {
            Kind::Group(group) if !steps.is_empty() => steps.pop().map(|body| (group, body)),
            Kind::Chord(header, body) => Some((header, *body)),
            other => {
                steps.push(Signature(other));
                None
            }
        };
        if let Some((header, body)) = chord {
            // If the body is a task, the message carries the steps that follow it. Any other body includes them.
            let rest = if body.is_task() { Vec::new() } else { std::mem::take(&mut steps) };
            let body = followed(body, rest);
            steps.push(Signature(Kind::Chord(header, Box::new(body))));
        }
    }
    steps
}

fn splice(step: Signature, flat: &mut Vec<Signature>) {
    match step.0 {
        Kind::Chain(steps) => steps.into_iter().for_each(|step| splice(step, flat)),
        Kind::Group(mut group) if group.members.len() == 1 => {
            group.members.drain(..).for_each(|member| splice(member, flat));
        }
        Kind::Chord(header, body) => match body.0 {
            Kind::Chain(mut steps) if steps.first().is_some_and(Signature::is_task) => {
                let body = Box::new(steps.remove(0));
                flat.push(Signature(Kind::Chord(header, body)));
                steps.into_iter().for_each(|step| splice(step, flat));
            }
            body => flat.push(Signature(Kind::Chord(header, Box::new(Signature(body))))),
        },
        other => flat.push(Signature(other)),
    }
}

/// Returns the body of a chord with the steps that follow it. `rest` is in reverse order.
fn followed(body: Signature, rest: Vec<Signature>) -> Signature {
    match body.0 {
        Kind::Task(mut task) => {
            task.options.chain.splice(0..0, rest);
            Signature(Kind::Task(task))
        }
        other if rest.is_empty() => Signature(other),
        other => Signature(Kind::Chain(std::iter::once(Signature(other)).chain(rest.into_iter().rev()).collect())),
    }
}

impl Signature {
    fn is_task(&self) -> bool {
        matches!(self.0, Kind::Task(_))
    }

    /// Returns the task that ends this step of a chain, if it is a single task.
    fn result_task(&mut self) -> Option<&mut Task> {
        match &mut self.0 {
            Kind::Task(task) => Some(task),
            Kind::Chord(_, body) => body.result_task(),
            Kind::Chain(_) | Kind::Group(_) => None,
        }
    }
}

fn message(task: &Task, id: &str, now: DateTime<Utc>) -> Result<Recorded<'static>, String> {
    let options = &task.options;
    let written = |error: serde_json::Error| error.to_string();
    let [callbacks, errbacks, chain] = [&options.link, &options.link_error, &options.chain].map(list);
    let (callbacks, errbacks, chain) =
        (callbacks.map_err(written)?, errbacks.map_err(written)?, chain.map_err(written)?);
    let embed =
        Embed { callbacks: callbacks.as_deref(), errbacks: errbacks.as_deref(), chain: chain.as_deref(), chord: None };
    let args = task.args_json().map_err(written)?;
    let kwargs = task.kwargs_json().map_err(written)?;
    let mut message = Recorded::new(Body::of_task(&args, &kwargs, &embed));
    set_headers(&mut message, options, now)?;
    message.complete(&task.name, id).map_err(written)?;
    if options.priority.is_none() {
        // Without one, the relay's routes may set it.
        message.properties.take("priority");
    }
    message.queue = options.queue.clone().map(Into::into);
    message.exchange = options.exchange.clone().map(Into::into);
    message.routing_key = options.routing_key.clone().map(Into::into);
    Ok(message)
}

/// Returns a list of signatures. An empty one is `null`, as in Celery.
fn list(signatures: &Vec<Signature>) -> serde_json::Result<Option<Box<RawValue>>> {
    if signatures.is_empty() { Ok(None) } else { to_raw_value(signatures).map(Some) }
}

fn set_headers(message: &mut Recorded<'static>, options: &Options, now: DateTime<Utc>) -> Result<(), String> {
    let moment = |name, moment: Option<Moment>| match moment.map(|moment| moment.after(now)) {
        Some(Some(moment)) => Ok(Some(iso(moment))),
        Some(None) => Err(format!("its {name} is out of range; choose an earlier time")),
        None => Ok(None),
    };
    let eta = moment("countdown", options.start)?;
    let expires = moment("expires", options.expires)?;
    let limits = [options.time_limit, options.soft_time_limit].map(|limit| limit.map(Seconds::from));
    let stamped: Vec<&str> = options.stamps.iter().map(|(name, _)| name).collect();
    let set = || {
        let headers = &mut message.headers;
        for (name, value) in with_trace_context(Headers::new()) {
            headers.set(name, &value)?;
        }
        for (name, value) in options.headers.iter() {
            headers.set_raw(name.to_owned(), value.to_owned());
        }
        headers.set("eta", &eta)?;
        headers.set("expires", &expires)?;
        headers.set("shadow", &options.shadow)?;
        headers.set("group", &options.group.as_ref().map(|(id, _)| id))?;
        headers.set("group_index", &options.group.as_ref().map(|(_, index)| index))?;
        headers.set("timelimit", &limits)?;
        headers.set("root_id", &options.root_id)?;
        headers.set("parent_id", &options.parent_id)?;
        headers.set("ignore_result", &options.ignore_result.unwrap_or_default())?;
        headers.set("stamped_headers", &(!stamped.is_empty()).then_some(stamped))?;
        headers.set("stamps", &options.stamps)?;
        let properties = &mut message.properties;
        properties.set("reply_to", options.reply_to.as_deref().unwrap_or_default())?;
        properties.set("priority", &options.priority)
    };
    set().map_err(|error: serde_json::Error| error.to_string())
}

fn refused(task: &str, why: impl Into<String>) -> InvalidEvent {
    InvalidEvent::Task { task: task.to_owned(), why: why.into() }
}

#[cfg(test)]
mod tests;
