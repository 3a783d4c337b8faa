//! A task to run: a call that an application sends to a Celery worker, or attaches to another task as a follow-up. Problems
//! are reported when it is sent, before any statement.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use super::canvas::Signature;
use super::options::{Moment, Options, is_header, is_option};
use crate::event::NAME_LIMIT;

/// A call of a Celery task: its name, its arguments and its options. Arguments are sent as JSON.
///
/// ```
/// use std::time::Duration;
/// use pillarbox::celery::Task;
/// let task = Task::new("orders.process")
///     .arg(42)
///     .kwarg("express", true)
///     .countdown(Duration::from_secs(10))
///     .queue("orders")
///     .link(Task::new("orders.notify"));
/// ```
#[derive(Debug, Clone)]
pub struct Task {
    pub(super) name: String,
    pub(super) args: Vec<Box<RawValue>>,
    pub(super) kwargs: Vec<(String, Box<RawValue>)>,
    pub(super) immutable: bool,
    pub(super) options: Options,
    /// The first problem that was found.
    pub(super) problem: Option<String>,
}

impl Task {
    /// Returns a task of this name, without arguments. It gets an id when it is sent.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            args: Vec::new(),
            kwargs: Vec::new(),
            immutable: false,
            options: Options::default(),
            problem: None,
        }
    }

    /// Adds a positional argument.
    #[must_use]
    pub fn arg(mut self, value: impl Serialize) -> Self {
        let place = self.args.len() + 1;
        if let Some(value) = self.written(&format!("argument {place}"), &value) {
            self.args.push(value);
        }
        self
    }

    /// Adds a keyword argument, or replaces the one of this name.
    #[must_use]
    pub fn kwarg(mut self, name: impl Into<String>, value: impl Serialize) -> Self {
        let name = name.into();
        if let Some(value) = self.written(&format!("argument {name:?}"), &value) {
            self.kwargs.retain(|(other, _)| *other != name);
            self.kwargs.push((name, value));
        }
        self
    }

    /// Runs the task with these arguments only, without the result of the task before it (Celery's `si`).
    #[must_use]
    pub fn immutable(mut self) -> Self {
        self.immutable = true;
        self
    }

    /// Sets the delay before the task runs. It starts when the task is sent, or at the task's turn in a chain.
    #[must_use]
    pub fn countdown(mut self, delay: Duration) -> Self {
        self.options.start = Some(Moment::In(delay));
        self
    }

    /// Sets the earliest time at which the task runs.
    #[must_use]
    pub fn eta(mut self, moment: DateTime<Utc>) -> Self {
        self.options.start = Some(Moment::At(moment));
        self
    }

    /// Keeps the task in the outbox instead of a worker's memory: the message is sent only this long before its ETA.
    ///
    /// Redis redelivers a message that a worker has held for an hour; this avoids that. It applies to the messages that this
    /// application sends. Of a chain, that is the first task.
    #[must_use]
    pub fn hold_until_eta(mut self, margin: Duration) -> Self {
        self.options.hold = Some(margin);
        self
    }

    /// Sets how long from now the task may still run.
    #[must_use]
    pub fn expires(mut self, delay: Duration) -> Self {
        self.options.expires = Some(Moment::In(delay));
        self
    }

    /// Sets the latest time at which the task may run.
    #[must_use]
    pub fn expires_at(mut self, moment: DateTime<Utc>) -> Self {
        self.options.expires = Some(Moment::At(moment));
        self
    }

    /// Sets the priority. On RabbitMQ the highest runs first, and the queue must support priorities. On Redis the lowest runs
    /// first, from 0 to 9.
    #[must_use]
    pub fn priority(mut self, priority: u8) -> Self {
        self.options.priority = Some(priority);
        self
    }

    /// Sets the queue. Without it, the relay's routes decide.
    #[must_use]
    pub fn queue(mut self, name: impl Into<String>) -> Self {
        self.options.queue = Some(name.into());
        self
    }

    /// Sets the exchange to publish to, with [`Task::routing_key`], instead of a queue.
    #[must_use]
    pub fn exchange(mut self, name: impl Into<String>) -> Self {
        self.options.exchange = Some(name.into());
        self
    }

    /// Sets the routing key to publish with, to [`Task::exchange`].
    #[must_use]
    pub fn routing_key(mut self, key: impl Into<String>) -> Self {
        self.options.routing_key = Some(key.into());
        self
    }

    /// Sets the time after which a worker kills the task.
    #[must_use]
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.options.time_limit = Some(limit);
        self
    }

    /// Sets the time after which a worker raises `SoftTimeLimitExceeded` in the task.
    #[must_use]
    pub fn soft_time_limit(mut self, limit: Duration) -> Self {
        self.options.soft_time_limit = Some(limit);
        self
    }

    /// Sets the name that logs and monitors show instead of the task's own.
    #[must_use]
    pub fn shadow(mut self, name: impl Into<String>) -> Self {
        self.options.shadow = Some(name.into());
        self
    }

    /// Sets whether the result is discarded.
    #[must_use]
    pub fn ignore_result(mut self, ignore: bool) -> Self {
        self.options.ignore_result = Some(ignore);
        self
    }

    /// Sets the queue that the `rpc://` result backend replies to.
    #[must_use]
    pub fn reply_to(mut self, queue: impl Into<String>) -> Self {
        self.options.reply_to = Some(queue.into());
        self
    }

    /// Adds a header of the message, in Python `self.request.headers[name]`.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Serialize) -> Self {
        let name = name.into();
        if is_header(&name) {
            self.refuse(format!("the header {name:?} is reserved by Celery; choose another name"));
        } else if let Some(value) = self.written(&format!("header {name:?}"), &value) {
            self.options.headers.set_raw(name, value);
        }
        self
    }

    /// Adds a stamp: a header that Celery also gives to the tasks that follow this one, in Python `self.request.stamps[name]`.
    #[must_use]
    pub fn stamp(mut self, name: impl Into<String>, value: impl Serialize) -> Self {
        let name = name.into();
        if let Some(value) = self.written(&format!("stamp {name:?}"), &value) {
            self.stamp_raw(&name, &value);
        }
        self
    }

    pub(super) fn stamp_raw(&mut self, name: &str, value: &RawValue) {
        if is_option(name) {
            self.refuse(format!("the stamp {name:?} has the name of a Celery option; choose another name"));
        } else {
            self.options.stamps.set_raw(name.to_owned(), value.to_owned());
        }
    }

    /// Adds a callback that runs after success, with the result as its first argument.
    #[must_use]
    pub fn link(mut self, callback: impl Into<Signature>) -> Self {
        self.options.link.push(callback.into());
        self
    }

    /// Adds a callback that runs after a failure.
    #[must_use]
    pub fn link_error(mut self, errback: impl Into<Signature>) -> Self {
        self.options.link_error.push(errback.into());
        self
    }

    /// Sets the id. Without it, the task gets a new one when it is sent.
    #[must_use]
    pub fn task_id(mut self, id: impl Into<String>) -> Self {
        self.options.task_id = Some(id.into());
        self
    }

    /// Sets the first task of the workflow. Without it, that is the task itself.
    #[must_use]
    pub fn root_id(mut self, id: impl Into<String>) -> Self {
        self.options.root_id = Some(id.into());
        self
    }

    /// Sets the task that called this one.
    #[must_use]
    pub fn parent_id(mut self, id: impl Into<String>) -> Self {
        self.options.parent_id = Some(id.into());
        self
    }

    fn written(&mut self, what: &str, value: &impl Serialize) -> Option<Box<RawValue>> {
        to_raw_value(value).map_err(|error| self.refuse(format!("{what} cannot be written as JSON: {error}"))).ok()
    }

    fn refuse(&mut self, problem: String) {
        self.problem.get_or_insert(problem);
    }

    /// Returns an error if no worker could run the task.
    pub(super) fn check(&self) -> Result<(), String> {
        let length = self.name.chars().count();
        if let Some(problem) = &self.problem {
            return Err(problem.clone());
        }
        if self.name.trim().is_empty() {
            return Err("its name is empty; set the name that the worker has registered".to_owned());
        }
        if length > NAME_LIMIT {
            return Err(format!("its name has {length} characters, the limit is {NAME_LIMIT}; shorten it"));
        }
        if self.options.task_id.as_ref().is_some_and(String::is_empty) {
            return Err("its id is empty; set one, or leave it out".to_owned());
        }
        Ok(())
    }

    pub(super) fn args_json(&self) -> serde_json::Result<Box<RawValue>> {
        to_raw_value(&self.args)
    }

    pub(super) fn kwargs_json(&self) -> serde_json::Result<Box<RawValue>> {
        to_raw_value(&Kwargs(&self.kwargs))
    }
}

struct Kwargs<'a>(&'a [(String, Box<RawValue>)]);

impl Serialize for Kwargs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// Serialises the task as a signature, the form in which other tasks carry it.
impl Serialize for Task {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.check().map_err(|problem| S::Error::custom(format!("the task {:?}: {problem}", self.name)))?;
        Form {
            task: &self.name,
            args: &self.args,
            kwargs: Kwargs(&self.kwargs),
            options: &self.options,
            subtask_type: None,
            immutable: self.immutable,
        }
        .serialize(serializer)
    }
}

/// Celery's form of a signature.
#[derive(Serialize)]
pub(super) struct Form<'a, K, O> {
    pub(super) task: &'a str,
    pub(super) args: &'a [Box<RawValue>],
    pub(super) kwargs: K,
    pub(super) options: O,
    pub(super) subtask_type: Option<&'static str>,
    pub(super) immutable: bool,
}
