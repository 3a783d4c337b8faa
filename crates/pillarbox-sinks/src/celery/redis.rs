//! Redis, as kombu uses it: a queue is one list per priority; a message is a JSON envelope that is pushed to a list.
//!
//! `envelope` writes a message, `binding` finds the queues of an exchange, `failure` explains errors. One connection
//! carries all batches, each as one pipeline.

mod binding;
mod client;
mod envelope;
mod failure;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use pillarbox::celery::Declaration;
use pillarbox::{Message, SendError, SendErrorKind};
use redis::{Pipeline, Value};

use self::binding::Binding;
use self::client::{Client, Link};
use super::message::Outgoing;
use super::route::{Routing, Target};
use super::settings::{CeleryError, CelerySettings};
use crate::redis_server::{self, RedisServer};

const FANOUT: &str = "fanout";

/// A Redis server that Celery's workers read from.
pub(super) struct Redis {
    client: Client,
    shown: String,
    database: i64,
    task: Option<String>,
    routing: Routing,
    declares: bool,
    timeout: Duration,
    key_prefix: String,
    priority_steps: Vec<u8>,
    separator: String,
}

/// The bindings of each exchange, by its name.
type Bindings = BTreeMap<String, Result<Vec<Binding>, SendError>>;

/// Queues that could not be bound to their exchanges, with the error.
type Undeclared = Vec<(Declaration, SendError)>;

/// A message with its target.
struct Parcel<'a> {
    position: usize,
    message: &'a Outgoing<'a>,
    target: Target<'a>,
}

impl Redis {
    pub(super) fn new(
        server: &RedisServer,
        shown: String,
        routing: Routing,
        settings: CelerySettings,
    ) -> Result<Self, CeleryError> {
        let client = Client::new(server, &settings.tls, settings.sentinel_password.as_ref(), settings.timeout)?;
        let CelerySettings { task, declare: declares, timeout, key_prefix, priority_steps, separator, .. } = settings;
        Ok(Self {
            client,
            shown,
            database: server.database,
            task,
            routing,
            declares,
            timeout,
            key_prefix,
            priority_steps,
            separator,
        })
    }

    pub(super) async fn send(&self, batch: &[Message]) -> Vec<Result<(), SendError>> {
        let deadline = Instant::now() + self.timeout - (self.timeout / 10).min(Duration::from_millis(500));
        let now = Utc::now();
        let messages: Vec<_> = batch.iter().map(|message| Outgoing::of(message, self.task.as_deref())).collect();
        let mut answers: Vec<Result<(), SendError>> = vec![Ok(()); batch.len()];
        let mut parcels = Vec::with_capacity(batch.len());
        for (position, message) in messages.iter().enumerate() {
            match message {
                Ok(message) => {
                    let target = self.routing.resolve(message, now, false);
                    parcels.push(Parcel { position, message, target });
                }
                Err(error) => answers[position] = Err(error.clone()),
            }
        }
        let sending = async {
            let mut link = self.client.link(&self.shown, deadline).await?;
            let sent = self.deliver(&mut link, &parcels, now, &mut answers).await;
            // A master that became a replica reports it with every response. Connecting again asks the sentinels for the
            // new master.
            let is_away = |answer: &Result<(), SendError>| {
                answer.as_ref().is_err_and(|error| error.kind == SendErrorKind::Unavailable)
            };
            if sent.is_err() || answers.iter().any(is_away) {
                self.client.forget(&link).await;
            }
            sent
        };
        let failed = match tokio::time::timeout_at(deadline.into(), sending).await {
            Ok(sent) => sent.err(),
            Err(_) => {
                self.client.reset().await;
                // The whole connection is silent, so it is not a message's fault.
                Some(SendError::unavailable(format!("{} did not respond within {:?}", self.shown, self.timeout)))
            }
        };
        if let Some(error) = failed {
            parcels.iter().for_each(|parcel| answers[parcel.position] = Err(error.clone()));
        }
        answers
    }

    pub(super) async fn reach(&self) -> Result<(), SendError> {
        self.client.link(&self.shown, Instant::now() + self.timeout).await.map(drop)
    }

    /// Sends all messages in one pipeline. An error applies to all of them: Redis did not respond.
    async fn deliver(
        &self,
        link: &mut Link,
        parcels: &[Parcel<'_>],
        now: DateTime<Utc>,
        answers: &mut [Result<(), SendError>],
    ) -> Result<(), SendError> {
        let undeclared = if self.declares { self.declare(link, parcels).await? } else { Undeclared::new() };
        let bindings = self.bindings(link, parcels).await?;
        let mut commands = redis::pipe();
        let mut owners: Vec<usize> = Vec::with_capacity(parcels.len());
        for (index, parcel) in parcels.iter().enumerate() {
            let pushed = match self.declared(parcel, &undeclared) {
                Ok(()) => self.push(&mut commands, parcel, &bindings, now),
                Err(error) => Err(error),
            };
            match pushed {
                Ok(count) => owners.extend(std::iter::repeat_n(index, count)),
                Err(error) => answers[parcel.position] = Err(error),
            }
        }
        let replies = self.run(link, &commands, owners.len()).await?;
        for (owner, reply) in owners.into_iter().zip(replies) {
            let parcel = &parcels[owner];
            let judged = failure::judge(&reply, &parcel.target, &self.shown);
            if let Err(error) = judged {
                answers[parcel.position] = Err(error);
            }
        }
        Ok(())
    }

    /// Adds the commands of a message to the pipeline and returns their number.
    fn push(
        &self,
        commands: &mut Pipeline,
        parcel: &Parcel<'_>,
        bindings: &Bindings,
        now: DateTime<Utc>,
    ) -> Result<usize, SendError> {
        let Parcel { message, target, .. } = parcel;
        let priority = envelope::priority(message, target.priority);
        let envelope = envelope::write(message, target, priority, now)?;
        if target.exchange.is_empty() {
            commands.cmd("LPUSH").arg(self.key(&target.routing_key, priority)).arg(&envelope[..]);
            return Ok(1);
        }
        if target.exchange_type == Some(FANOUT) {
            commands.cmd("PUBLISH").arg(self.topic(target)).arg(&envelope[..]);
            return Ok(1);
        }
        let bound = match bindings.get(target.exchange.as_ref()) {
            Some(bound) => bound.as_ref().map_err(Clone::clone)?.as_slice(),
            None => &[],
        };
        let queues: BTreeSet<_> =
            bound.iter().filter(|binding| binding.takes(&target.routing_key)).map(|binding| &binding.queue).collect();
        if queues.is_empty() {
            return Err(failure::unbound(target, bound.is_empty(), self.declares));
        }
        for queue in &queues {
            commands.cmd("LPUSH").arg(self.key(queue, priority)).arg(&envelope[..]);
        }
        Ok(queues.len())
    }

    /// Returns the list of a queue for a priority.
    fn key(&self, queue: &str, priority: u8) -> String {
        let step = step(&self.priority_steps, priority);
        if step == 0 {
            format!("{}{queue}", self.key_prefix)
        } else {
            format!("{}{queue}{}{step}", self.key_prefix, self.separator)
        }
    }

    /// Returns the channel that subscribers of a fanout exchange listen to.
    fn topic(&self, target: &Target<'_>) -> String {
        let mut topic = format!("{}/{}.{}", self.key_prefix, self.database, target.exchange);
        if !target.routing_key.is_empty() {
            topic.push('/');
            topic.push_str(&target.routing_key);
        }
        topic
    }

    /// Returns the bindings of all exchanges that these messages go to.
    async fn bindings(&self, link: &mut Link, parcels: &[Parcel<'_>]) -> Result<Bindings, SendError> {
        let is_bound = |target: &&Target<'_>| !target.exchange.is_empty() && target.exchange_type != Some(FANOUT);
        let exchanges: BTreeSet<&str> =
            parcels.iter().map(|parcel| &parcel.target).filter(is_bound).map(|target| &*target.exchange).collect();
        if exchanges.is_empty() {
            return Ok(BTreeMap::new());
        }
        let mut commands = redis::pipe();
        for exchange in &exchanges {
            commands.cmd("SMEMBERS").arg(binding::key(&self.key_prefix, exchange));
        }
        let replies = self.run(link, &commands, exchanges.len()).await?;
        let mut bindings = BTreeMap::new();
        for (exchange, reply) in exchanges.into_iter().zip(replies) {
            let bound = match &reply {
                Value::ServerError(error) => {
                    let what = format!("to list the bindings of the exchange {exchange:?}");
                    Err(failure::server(error, &what, &self.shown))
                }
                reply => binding::read(reply, &self.separator, exchange),
            };
            bindings.insert(exchange.to_owned(), bound);
        }
        Ok(bindings)
    }

    /// Binds queues to their exchanges, each once per connection. Returns the queues that could not be bound.
    async fn declare(&self, link: &mut Link, parcels: &[Parcel<'_>]) -> Result<Undeclared, SendError> {
        let mut commands = redis::pipe();
        let mut fresh = Vec::new();
        for parcel in parcels {
            for queue in self.routing.declarations(&parcel.message.recorded, &parcel.target) {
                if queue.exchange.is_empty() || link.state.has(&queue) || fresh.contains(&queue) {
                    continue;
                }
                let member = binding::member(&queue, &self.separator);
                for key in binding::keys(&self.key_prefix, &queue.exchange) {
                    commands.cmd("SADD").arg(key).arg(&member);
                }
                fresh.push(queue);
            }
        }
        let replies = self.run(link, &commands, fresh.len() * binding::SETS).await?;
        let mut undeclared = Undeclared::new();
        for (queue, replies) in fresh.iter().zip(replies.chunks(binding::SETS)) {
            let refused = replies.iter().find_map(|reply| match reply {
                Value::ServerError(error) => Some(failure::undeclared(error, queue, &self.shown)),
                _ => None,
            });
            undeclared.extend(refused.map(|error| (Declaration::clone(queue), error)));
        }
        let is_declared = |queue: &Declaration| undeclared.iter().all(|(refused, _)| refused != queue);
        link.state.add(fresh.into_iter().map(Cow::into_owned).filter(is_declared));
        Ok(undeclared)
    }

    /// Checks that every queue of a message is declared.
    fn declared(&self, parcel: &Parcel<'_>, undeclared: &Undeclared) -> Result<(), SendError> {
        if undeclared.is_empty() {
            return Ok(());
        }
        let needed = self.routing.declarations(&parcel.message.recorded, &parcel.target);
        match undeclared.iter().find(|(refused, _)| needed.iter().any(|queue| **queue == *refused)) {
            Some((_, error)) => Err(error.clone()),
            None => Ok(()),
        }
    }

    async fn run(&self, link: &mut Link, commands: &Pipeline, count: usize) -> Result<Vec<Value>, SendError> {
        if count == 0 {
            return Ok(Vec::new());
        }
        link.connection.run(commands, count).await.map_err(|error| redis_server::failure::lost(&self.shown, &error))
    }
}

/// Returns the largest step that is not above the priority. If there is none, kombu takes the last step.
fn step(steps: &[u8], priority: u8) -> u8 {
    let below = steps.iter().rev().find(|step| **step <= priority);
    below.or(steps.last()).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_priority_falls_to_the_step_below_it() {
        let usual = [0, 3, 6, 9];
        assert_eq!([0, 2, 3, 5, 8, 9].map(|priority| step(&usual, priority)), [0, 0, 3, 3, 6, 9]);
        assert_eq!(step(&[2, 5], 1), 5);
    }
}
