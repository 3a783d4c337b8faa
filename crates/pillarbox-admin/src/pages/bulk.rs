//! `/bulk`: an action on many events. First their number, then the rate, then a job.

use std::sync::Arc;

use askama::Template;
use axum::extract::State as Using;
use axum::response::Response;
use serde::Deserialize;

use super::frame::{Frame, Looking, shown, then};
use super::narrowed::Narrowed;
use super::words;
use crate::access::Operator;
use crate::asked::{AskedBoth, FilledBoth, bad, storable};
use crate::desk::{Action, Desk, GroupKey, JobScope};
use crate::refusal::Refusal;

#[derive(Debug, Default)]
struct BulkAsked {
    narrowed: Narrowed,
    job: JobAsked,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct JobAsked {
    action: String,
    /// `1` means only the dead letters of one group.
    grouped: String,
    group_destination: String,
    group_error: String,
    /// The only destination of a replay; all if it is empty.
    replay_to: String,
    rate: String,
    reason: String,
}

#[derive(Template)]
#[template(path = "bulk.html")]
struct Bulk {
    frame: Frame,
    action: String,
    /// The action, as text.
    verb: &'static str,
    count: String,
    /// Event or events.
    things: &'static str,
    none: bool,
    /// The filter, for people and for the form.
    filter: Vec<(&'static str, String)>,
    group: Option<(String, String)>,
    /// The destinations that a replay may be limited to.
    choices: Vec<Choice>,
    /// The only destination of a replay; all if it is empty.
    replay_to: String,
    back: String,
}

/// A destination of a replay, or all of them if the name is empty.
struct Choice {
    name: String,
    place: String,
    here: bool,
}

impl BulkAsked {
    fn action(&self) -> Result<(Action, &'static str), Refusal> {
        match self.job.action.as_str() {
            "retry" => Ok((Action::Retry, "Retry")),
            "replay" => Ok((Action::Replay, "Replay")),
            "fail" => Ok((Action::Fail { reason: self.job.reason.clone() }, "Mark failed")),
            other => Err(bad(format!("action is {other:?}, but must be retry, replay or fail"))),
        }
    }

    fn group(&self) -> Option<GroupKey> {
        let destination = Some(self.job.group_destination.clone()).filter(|name| !name.is_empty());
        (self.job.grouped == "1").then(|| GroupKey { destination, error: self.job.group_error.clone() })
    }

    fn scope(&self) -> Result<JobScope, Refusal> {
        for text in [&self.job.group_destination, &self.job.group_error] {
            storable("group", Some(text.clone()))?;
        }
        let replay_to = Some(self.job.replay_to.clone()).filter(|name| !name.is_empty());
        let replay_to = storable("replay_to", replay_to)?;
        Ok(JobScope { filter: self.narrowed.filter()?, group: self.group(), replay_to })
    }

    /// Returns the destinations of a replay with the links to their previews; none if there is no choice.
    fn choices(&self, desk: &Desk) -> Vec<Choice> {
        let names = desk.destination_names();
        if self.job.action != "replay" || names.len() < 2 {
            return Vec::new();
        }
        let job = &self.job;
        let choice = |name: &str| Choice {
            place: self.narrowed.link(
                "/bulk",
                &[
                    ("action", &job.action),
                    ("grouped", &job.grouped),
                    ("group_destination", &job.group_destination),
                    ("group_error", &job.group_error),
                    ("replay_to", name),
                ],
            ),
            here: name == job.replay_to,
            name: name.to_owned(),
        };
        [""].into_iter().chain(names.iter().map(String::as_str)).map(choice).collect()
    }

    fn rate(&self) -> Result<Option<f64>, Refusal> {
        match self.job.rate.trim() {
            "" => Ok(None),
            text => match text.parse() {
                Ok(rate) => Ok(Some(rate)),
                Err(_) => Err(bad(format!("the rate is {text:?}, but must be a number of events per second"))),
            },
        }
    }
}

pub(super) async fn preview(
    _: Operator,
    looking: Looking,
    Using(desk): Using<Arc<Desk>>,
    AskedBoth(narrowed, job): AskedBoth<Narrowed, JobAsked>,
) -> Result<Response, Refusal> {
    let asked = BulkAsked { narrowed, job };
    let (action, verb) = asked.action()?;
    let place = if asked.job.grouped == "1" { "/dead-letters" } else { "/events" };
    let back = asked.narrowed.link(place, &[]);
    let asked = BulkAsked { narrowed: asked.narrowed.pinned()?, ..asked };
    let preview = desk.preview(&action, &asked.scope()?).await?;
    let count = words::number(preview.count);
    Ok(shown(&Bulk {
        frame: looking.frame("Jobs", 0),
        verb,
        count: if preview.at_least { format!("at least {count}") } else { count },
        things: if preview.count == 1 && !preview.at_least { "event" } else { "events" },
        none: preview.count == 0 && !preview.at_least,
        filter: asked.narrowed.pairs().into_iter().map(|(name, text)| (name, text.to_owned())).collect(),
        group: asked.group().map(|group| (group.destination.unwrap_or_default(), group.error)),
        choices: asked.choices(&desk),
        back,
        replay_to: asked.job.replay_to,
        action: asked.job.action,
    }))
}

pub(super) async fn start(
    Operator(who): Operator,
    Using(desk): Using<Arc<Desk>>,
    FilledBoth(narrowed, job): FilledBoth<Narrowed, JobAsked>,
) -> Result<Response, Refusal> {
    let asked = BulkAsked { narrowed, job };
    let (action, _) = asked.action()?;
    let job = desk.start(action, &asked.scope()?, asked.rate()?, &who.name).await?;
    Ok(then(&format!("/jobs/{}?did=start", job.id)))
}
