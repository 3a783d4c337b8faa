//! `pillarbox route`: shows where the routes of the configuration send an event, and why. It reads no database and sends nothing.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use pillarbox::event::PAYLOAD_CONTENT_TYPE;
use pillarbox::route::{Fit, Subject};
use pillarbox::{Headers, Route, Routes, Unrouted};
use pillarbox_sinks::DestinationSettings;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::emit::{read_file, read_payload};
use super::{Misuse, Session};
use crate::config::Settings;
use crate::table::{Align, Table};

const AFTER_HELP: &str = "\
The event is written as the API takes it: {\"event_type\": \"order.placed\", \"aggregate_type\": \"Order\", \"payload\": {\"total\": 120}}.
Other members are ignored, so the output of `pillarbox events show ID --json` can be given as well.

Exit codes: 0 a route matches, 1 no route matches, 2 invalid command line, event or configuration.";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// A file with the event as JSON; `-` is standard input
    #[arg(required_unless_present = "event_type", conflicts_with_all = ["event_type", "aggregate_type", "payload"])]
    event: Option<PathBuf>,
    /// The type of the event, instead of a file: order.placed
    #[arg(long, value_name = "TYPE", requires = "aggregate_type")]
    event_type: Option<String>,
    /// The type of the aggregate: Order
    #[arg(long, value_name = "TYPE", requires = "event_type")]
    aggregate_type: Option<String>,
    /// The payload as JSON; `-` reads it from standard input
    #[arg(long, value_name = "JSON", default_value = "{}")]
    payload: String,
}

/// The parts of an event that routes look at.
#[derive(Debug, Deserialize)]
struct Given {
    event_type: String,
    aggregate_type: String,
    #[serde(default = "nothing")]
    payload: Box<RawValue>,
    #[serde(default)]
    headers: Option<Headers>,
    /// Set for an opaque payload, as the API takes it.
    content_type: Option<String>,
}

fn nothing() -> Box<RawValue> {
    RawValue::from_string("{}".to_owned()).unwrap_or_default()
}

/// Where the event goes, and why.
#[derive(Debug, Serialize)]
struct Told<'a> {
    event_type: &'a str,
    aggregate_type: &'a str,
    /// Whether the payload is opaque, so that no condition holds for it.
    opaque: bool,
    routed: bool,
    destinations: Vec<Destination<'a>>,
    /// What happens to the event if no route matches.
    unrouted: Option<&'static str>,
    routes: Vec<Tried<'a>>,
}

#[derive(Debug, Serialize)]
struct Destination<'a> {
    name: &'a str,
    kind: &'a str,
    /// Whether the configuration pauses it.
    paused: bool,
}

/// One route, and how it fits.
#[derive(Debug, Serialize)]
struct Tried<'a> {
    events: &'a str,
    aggregates: &'a str,
    r#where: Option<&'a str>,
    to: &'a [String],
    result: Verdict,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Matches,
    /// It would match, but an earlier route does.
    NotReached,
    OtherEventType,
    OtherAggregateType,
    WhereSelectsNothing,
}

impl Verdict {
    fn text(self) -> &'static str {
        match self {
            Self::Matches => "matches",
            Self::NotReached => "not reached: an earlier route matches",
            Self::OtherEventType => "no: another event type",
            Self::OtherAggregateType => "no: another aggregate type",
            Self::WhereSelectsNothing => "no: where selects nothing in the payload",
        }
    }
}

pub(crate) fn run(arguments: &Arguments, session: &Session) -> anyhow::Result<ExitCode> {
    let given = arguments.read()?;
    let mut headers = given.headers.unwrap_or_default();
    headers.extend(given.content_type.map(|kind| (PAYLOAD_CONTENT_TYPE.to_owned(), kind)));
    let subject = Subject {
        event_type: &given.event_type,
        aggregate_type: &given.aggregate_type,
        payload: &given.payload,
        headers: &headers,
    };
    let routes = Routes::new(session.settings.routes.clone());
    let told = tell(subject, &routes, &session.settings);
    session.output.answer(&told, || render(&told))?;
    Ok(if told.routed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Arguments {
    fn read(&self) -> anyhow::Result<Given> {
        match (&self.event, &self.event_type, &self.aggregate_type) {
            (Some(file), ..) => {
                let text = read_file(file)?;
                let wrong = |error: serde_json::Error| {
                    let file = file.display();
                    Misuse(format!(
                        "{file} is not an event: {error}; write it like {{\"event_type\": \"order.placed\", \"aggregate_type\": \"Order\", \"payload\": {{}}}}"
                    ))
                };
                Ok(serde_json::from_slice(&text).map_err(wrong)?)
            }
            (None, Some(event_type), Some(aggregate_type)) => Ok(Given {
                event_type: event_type.clone(),
                aggregate_type: aggregate_type.clone(),
                payload: read_payload(&self.payload)?,
                headers: None,
                content_type: None,
            }),
            _ => None.context("name a file with the event, or --event-type and --aggregate-type"),
        }
    }
}

fn tell<'a>(subject: Subject<'a>, routes: &'a Routes, settings: &'a Settings) -> Told<'a> {
    let mut decides: Option<&Route> = None;
    let mut tried = Vec::new();
    for (route, fit) in routes.explain(subject) {
        let result = match fit {
            Fit::Matches if decides.is_some() => Verdict::NotReached,
            Fit::Matches => {
                decides = Some(route);
                Verdict::Matches
            }
            Fit::OtherEvent => Verdict::OtherEventType,
            Fit::OtherAggregate => Verdict::OtherAggregateType,
            Fit::OtherPayload => Verdict::WhereSelectsNothing,
        };
        tried.push(Tried {
            events: route.events.as_str(),
            aggregates: route.aggregates.as_str(),
            r#where: route.condition.as_ref().map(pillarbox::Condition::as_str),
            to: &route.to,
            result,
        });
    }
    let to = decides.map(|route| route.to.as_slice()).unwrap_or_default();
    let configured = |name: &String| settings.destinations.iter().find(|one| one.name == *name);
    let destination =
        |one: &'a DestinationSettings| Destination { name: &one.name, kind: one.kind(), paused: one.paused };
    let unrouted = match settings.relay.unrouted {
        Unrouted::Park => "park",
        Unrouted::Discard => "discard",
    };
    Told {
        event_type: subject.event_type,
        aggregate_type: subject.aggregate_type,
        opaque: subject.headers.contains_key(PAYLOAD_CONTENT_TYPE),
        routed: decides.is_some(),
        destinations: to.iter().filter_map(configured).map(destination).collect(),
        unrouted: decides.is_none().then_some(unrouted),
        routes: tried,
    }
}

fn render(told: &Told<'_>) -> String {
    let mut text = String::new();
    if told.routes.is_empty() {
        text.push_str("the configuration has no routes; add [[routes]]\n");
    } else {
        let mut table = Table::new([
            ("ROUTE", Align::Right),
            ("EVENTS", Align::Left),
            ("AGGREGATES", Align::Left),
            ("WHERE", Align::Left),
            ("TO", Align::Left),
            ("RESULT", Align::Left),
        ]);
        for (number, tried) in (1..).zip(&told.routes) {
            table.row([
                i32::to_string(&number),
                tried.events.to_owned(),
                tried.aggregates.to_owned(),
                tried.r#where.unwrap_or_default().to_owned(),
                tried.to.join(", "),
                tried.result.text().to_owned(),
            ]);
        }
        text.push_str(&table.render());
    }
    if told.opaque && told.routes.iter().any(|tried| tried.r#where.is_some()) {
        text.push_str("\nthe payload is opaque, so where selects nothing in it\n");
    }
    text.push('\n');
    let named = |one: &Destination<'_>| {
        let paused = if one.paused { ", paused by the configuration" } else { "" };
        format!("{} ({}{paused})", one.name, one.kind)
    };
    let names: Vec<String> = told.destinations.iter().map(named).collect();
    text.push_str(&match told.unrouted {
        None => format!("{} goes to {}", told.event_type, names.join(" and ")),
        Some("park") => format!("{} is unrouted: it is parked until a route matches", told.event_type),
        Some(_) => format!("{} is unrouted: it is marked delivered and not sent (relay.unrouted)", told.event_type),
    });
    text
}
