//! `/chosen`: the question before an action on chosen events, and the action. `/events/{id}/replay` asks for one event.

use std::sync::Arc;

use askama::Template;
use axum::extract::State as Using;
use axum::http::StatusCode;
use axum::response::Response;
use chrono::Utc;
use pillarbox::store::{EventView, Marked, Replayed, Retried, State};
use serde::Deserialize;
use uuid::Uuid;

use super::frame::{Frame, Looking, shown, then};
use super::rows::Row;
use super::words;
use crate::access::Operator;
use crate::access::login::place;
use crate::asked::{At, Fields, Pairs, bad};
use crate::desk::Desk;
use crate::refusal::Refusal;

/// The largest number of events that one question lists: more than a page has.
const MOST: usize = 200;
const UNKNOWN: &str = "nothing was found at this address; check it for typing errors";

/// An action on chosen events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Act {
    Retry,
    Replay,
    Fail,
}

impl Act {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Replay => "replay",
            Self::Fail => "fail",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Retry, Self::Replay, Self::Fail].into_iter().find(|act| act.as_str() == text)
    }

    /// Returns the word on the button.
    pub(super) fn verb(self) -> &'static str {
        match self {
            Self::Retry => "Retry",
            Self::Replay => "Replay",
            Self::Fail => "Mark failed",
        }
    }

    /// Returns why the action leaves an event in this state alone; `None` if it does not.
    fn skips(self, state: State) -> Option<&'static str> {
        match (self, state) {
            (Self::Retry | Self::Fail, State::Sending) => Some("is being sent"),
            (Self::Retry | Self::Fail, State::Delivered) => Some("is delivered"),
            (Self::Fail, State::Failed) => Some("has failed already"),
            (Self::Replay, State::Delivered | State::Failed) | (Self::Retry | Self::Fail, _) => None,
            (Self::Replay, _) => Some("is not delivered yet"),
        }
    }
}

/// The actions that a list offers for its chosen rows.
pub(super) struct Choices(pub(super) Vec<Act>);

/// Returns the actions that are possible for some events of a list.
pub(super) fn choices(state: Option<State>) -> Choices {
    Choices(match state {
        None => vec![Act::Retry, Act::Replay, Act::Fail],
        Some(State::Failed) => vec![Act::Retry, Act::Replay],
        Some(State::Delivered) => vec![Act::Replay],
        Some(_) => vec![Act::Retry, Act::Fail],
    })
}

impl Choices {
    /// Returns the actions, or none if the user may not act.
    pub(super) fn of(self, frame: &Frame) -> Self {
        if frame.acts { self } else { Self(Vec::new()) }
    }
}

/// What was chosen.
#[derive(Debug, PartialEq)]
struct Chosen {
    act: Act,
    ids: Vec<Uuid>,
    /// The page to return to.
    back: String,
    /// The only destination of a replay.
    destination: Option<String>,
    reason: String,
}

impl Chosen {
    fn read(pairs: Vec<(String, String)>) -> Result<Self, Refusal> {
        let (mut act, mut ids) = (None, Vec::new());
        let (mut back, mut destination, mut reason) = (None, None, String::new());
        for (name, value) in pairs {
            match name.as_str() {
                "action" => act = Act::parse(&value),
                "id" => {
                    let id = value.parse().map_err(|_| bad(format!("id is {value:?}, which is not an event's id")))?;
                    // An event that is named twice is one event, and one change.
                    if !ids.contains(&id) {
                        ids.push(id);
                    }
                }
                "back" => back = Some(value),
                "destination" => destination = Some(value).filter(|name| !name.is_empty()),
                "reason" => reason = value,
                _ => {}
            }
        }
        let act = act.ok_or_else(|| bad("action must be retry, replay or fail"))?;
        if act != Act::Replay && destination.is_some() {
            return Err(bad("destination is for replay only; remove it"));
        }
        match ids.len() {
            0 => Err(bad("no event was chosen; tick the box of at least one event")),
            1..=MOST => Ok(Self { act, ids, back: place(back.as_deref()).to_owned(), destination, reason }),
            many => Err(bad(format!(
                "{many} events were chosen, the limit is {MOST}; use the action on all matching events"
            ))),
        }
    }
}

#[derive(Template)]
#[template(path = "chosen.html")]
struct Question {
    frame: Frame,
    act: Act,
    /// The events that the action changes, as text.
    things: String,
    /// The number of these events.
    changes: usize,
    /// All chosen events, each with the reason why it is skipped.
    rows: Vec<(Row, Option<&'static str>)>,
    /// The number of chosen events that no longer exist.
    gone: usize,
    /// The destinations of a replay.
    destinations: Vec<String>,
    back: String,
}

/// Asks before the action.
pub(super) async fn ask(
    _: Operator,
    looking: Looking,
    Using(desk): Using<Arc<Desk>>,
    pairs: Pairs,
) -> Result<Response, Refusal> {
    let chosen = Chosen::read(pairs.only(&["action", "id", "back"])?)?;
    question(looking, &desk, chosen).await
}

/// Asks before a single event is replayed.
pub(super) async fn ask_replay(
    _: Operator,
    looking: Looking,
    Using(desk): Using<Arc<Desk>>,
    At(id): At<Uuid>,
) -> Result<Response, Refusal> {
    let back = format!("/events/{id}");
    let chosen = Chosen { act: Act::Replay, ids: vec![id], back, destination: None, reason: String::new() };
    question(looking, &desk, chosen).await
}

async fn question(looking: Looking, desk: &Desk, chosen: Chosen) -> Result<Response, Refusal> {
    let events = desk.chosen(&chosen.ids).await?;
    if events.is_empty() {
        return Err(Refusal::new(StatusCode::NOT_FOUND, UNKNOWN));
    }
    let changed: Vec<&EventView> = events.iter().filter(|event| chosen.act.skips(event.state).is_none()).collect();
    let mut destinations = Vec::new();
    for name in changed.iter().filter_map(|event| desk.goes_to(event)).flatten() {
        if !destinations.contains(&name) {
            destinations.push(name);
        }
    }
    let rows =
        Row::all(&events, desk, Utc::now()).into_iter().zip(events.iter().map(|event| chosen.act.skips(event.state)));
    Ok(shown(&Question {
        frame: looking.frame("Events", 0),
        things: count(changed.len()),
        changes: changed.len(),
        rows: rows.collect(),
        gone: chosen.ids.len() - events.len(),
        destinations,
        act: chosen.act,
        back: chosen.back,
    }))
}

/// Acts on the chosen events, and returns to the list with a notice of the result.
pub(super) async fn act(
    Operator(who): Operator,
    Using(desk): Using<Arc<Desk>>,
    fields: Fields,
) -> Result<Response, Refusal> {
    let fields = fields.only(&["action", "id", "back", "destination", "reason"])?;
    let Chosen { act, ids, back, destination, reason } = Chosen::read(fields)?;
    let changed = match act {
        Act::Retry => {
            let answers = desk.retry(ids.clone(), &who.name).await?;
            answers.iter().filter(|(_, answer)| *answer == Retried::Due).count()
        }
        Act::Fail => {
            let answers = desk.fail(&ids, &reason, &who.name).await?;
            answers.iter().filter(|(_, answer)| *answer == Marked::Failed).count()
        }
        Act::Replay => {
            let answers = desk.replay(&ids, destination.as_deref(), &who.name).await?;
            if let [(_, Replayed::As { id })] = answers[..] {
                return Ok(then(&format!("/events/{id}?did=replay")));
            }
            answers.iter().filter(|(_, answer)| matches!(answer, Replayed::As { .. })).count()
        }
    };
    Ok(then(&Tally { act, changed, refused: ids.len() - changed }.on(&back)))
}

/// The result of an action, as a redirect carries it: `did=retry.3.1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tally {
    act: Act,
    changed: usize,
    refused: usize,
}

impl Tally {
    pub(super) fn parse(did: &str) -> Option<Self> {
        let mut parts = did.split('.');
        let (act, changed, refused) = (parts.next()?, parts.next()?, parts.next()?);
        let number = |text: &str| text.parse().ok().filter(|number| *number <= MOST);
        let tally = Self { act: Act::parse(act)?, changed: number(changed)?, refused: number(refused)? };
        parts.next().is_none().then_some(tally)
    }

    /// Returns the link to a page that shows the notice.
    fn on(self, page: &str) -> String {
        let (path, query) = page.split_once('?').unwrap_or((page, ""));
        let kept = query.split('&').filter(|pair| !pair.is_empty() && !pair.starts_with("did="));
        let did = format!("did={}.{}.{}", self.act.as_str(), self.changed, self.refused);
        format!("{path}?{}", kept.chain([did.as_str()]).collect::<Vec<_>>().join("&"))
    }

    pub(super) fn notice(self) -> String {
        let (events, one) = (count(self.changed), self.changed == 1);
        let done = match (self.act, one) {
            (Act::Retry, true) => format!("{events} is due now."),
            (Act::Retry, false) => format!("{events} are due now."),
            (Act::Replay, true) => format!("{events} was emitted again, as a new event."),
            (Act::Replay, false) => format!("{events} were emitted again, as new events."),
            (Act::Fail, true) => format!("{events} is marked failed."),
            (Act::Fail, false) => format!("{events} are marked failed."),
        };
        match self.refused {
            0 => done,
            refused => format!("{done} {} not changed: the action was not possible.", were(refused)),
        }
    }
}

fn were(number: usize) -> String {
    format!("{} {}", count(number), if number == 1 { "was" } else { "were" })
}

fn count(number: usize) -> String {
    match number {
        1 => "1 event".to_owned(),
        number => format!("{} events", words::number(number as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
        all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_choice_needs_an_action_and_an_event() {
        let id = Uuid::now_v7().to_string();
        let read = |all: &[(&str, &str)]| Chosen::read(pairs(all));
        let chosen = read(&[("action", "fail"), ("id", &id), ("id", &id), ("back", "/events?state=due")]).unwrap();
        assert_eq!((chosen.act, chosen.ids.len(), chosen.back.as_str()), (Act::Fail, 1, "/events?state=due"));
        let elsewhere = read(&[("action", "retry"), ("id", &id), ("back", "//evil.example")]).unwrap();
        assert_eq!(elsewhere.back, "/");
        assert!(read(&[("action", "retry")]).is_err() && read(&[("id", &id)]).is_err());
        assert!(read(&[("action", "retry"), ("id", "7")]).is_err());
        assert!(read(&[("action", "retry"), ("id", &id), ("destination", "mail")]).is_err());
        let many: Vec<String> = (0..=MOST).map(|_| Uuid::now_v7().to_string()).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|id| ("id", id.as_str())).collect();
        assert!(read(&[&[("action", "retry")], many.as_slice()].concat()).is_err());
    }

    #[test]
    fn a_result_survives_the_redirect_and_shows_only_numbers() {
        let tally = Tally { act: Act::Retry, changed: 3, refused: 1 };
        let link = tally.on("/events?state=failed&did=retry.9.9");
        assert_eq!(link, "/events?state=failed&did=retry.3.1");
        assert_eq!(tally.on("/events"), "/events?did=retry.3.1");
        assert_eq!(Tally::parse("retry.3.1"), Some(tally));
        assert_eq!(tally.notice(), "3 events are due now. 1 event was not changed: the action was not possible.");
        for wrong in ["retry", "retry.3", "retry.3.1.1", "retry.x.1", "retry.-1.1", "retry.3.100000", "<b>.1.1"] {
            assert_eq!(Tally::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_action_skips_events_that_it_cannot_change() {
        let skipped =
            |act: Act| State::ALL.into_iter().filter(move |state| act.skips(*state).is_some()).collect::<Vec<_>>();
        assert_eq!(skipped(Act::Retry), [State::Sending, State::Delivered]);
        assert_eq!(skipped(Act::Fail), [State::Sending, State::Delivered, State::Failed]);
        assert_eq!(skipped(Act::Replay).len(), 5);
    }
}
