//! `pillarbox dev`: everything that development needs in one process. It is the relay of `pillarbox relay`, with short retries
//! and, if the configuration has no routes, a receiver that prints what comes.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use clap::Args;
use pillarbox::{Observed, Observer, Route, SendError, StoredEvent};
use pillarbox_admin::{Mask, OpaqueView, pretty};
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::{Misuse, Session, relay};
use crate::admin::{Insistence, taken};
use crate::config::Environment;
use crate::config::admin::{Listen, USUAL};
use crate::config::destination::registry;
use crate::output::{Output, count};
use crate::receiver::Receiver;
use crate::store::Opened;

const AFTER_HELP: &str = "\
Try it: start `pillarbox dev` in one terminal, and in another, in the same directory:

  pillarbox emit Order 42 order.placed '{\"total\": \"19.90\"}'

Without [[routes]] in the configuration, all events go to a receiver in this process. It prints the type, the id, the aggregate
and the payload of each request, and responds 204. With routes, events go where the routes say, and their results are printed.
The first retry comes after a second, whatever relay.retry says. The pages are at admin.listen, or at a free port if that is
not set and 127.0.0.1:8800 is in use. With --json, the first line says where everything is, and each
attempt is another line.";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The database, in place of database.url: a URL, env:NAME or file:PATH. Its tables are created or upgraded
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// Let the first N attempts of each event fail with status 500, to see retries
    #[arg(long, value_name = "N", default_value_t = 0)]
    fail: u32,
}

/// The settings that development has in place of the configuration's.
const SETTINGS: [(&str, &str); 4] = [
    ("PILLARBOX_RELAY_RETRY_BASE", "1s"),
    ("PILLARBOX_RELAY_RETRY_CAP", "5s"),
    ("PILLARBOX_RELAY_BREAKER_BASE", "1s"),
    ("PILLARBOX_RELAY_BREAKER_CAP", "5s"),
];
/// The name of the receiver as a destination.
const RECEIVER: &str = "receiver";

impl Arguments {
    fn override_configuration(&self, environment: &mut Environment) {
        for (variable, value) in SETTINGS {
            environment.flag(variable, "pillarbox dev", value.to_owned());
        }
        if let Some(database) = &self.database {
            environment.flag("PILLARBOX_DATABASE_URL", "--database", database.clone());
        }
    }
}

pub(crate) async fn run(arguments: &Arguments, config: Option<&Path>, output: Output) -> anyhow::Result<()> {
    let mut environment = Environment::of_process();
    arguments.override_configuration(&mut environment);
    let mut session = Session::start(config, environment, output)?;
    session.own("use `pillarbox celery-relay`")?;
    let printer = Printer { output, mask: session.settings.admin.mask.clone() };
    let (receiver, observer) = if session.settings.routes.is_empty() {
        let receiver = printer.receive(arguments.fail).await?;
        send_all_to(&receiver, &mut session)?;
        (Some(receiver), None)
    } else if arguments.fail > 0 {
        return Err(
            Misuse("--fail is for the receiver, which is not used: the configuration has routes".to_owned()).into()
        );
    } else {
        (None, Some(Arc::new(printer) as Arc<dyn Observer>))
    };
    let pages = pages(&mut session.settings.admin.listen)?;
    prepare(&session).await?;
    begin(&session, receiver.as_ref(), arguments.database.is_some())?;
    relay::deliver(&relay::Arguments::default(), &session, observer, pages).await
}

/// Makes the receiver the only destination, and routes everything to it.
fn send_all_to(receiver: &Receiver, session: &mut Session) -> anyhow::Result<()> {
    let table = format!("[{RECEIVER}]\nkind = \"http\"\nurl = \"{}\"\nallow_private = true\n", receiver.url());
    let settings = &mut session.settings;
    settings.destinations = registry().destinations(table.parse()?, &settings.relay, &session.environment)?;
    settings.routes = vec![Route::new("*", [RECEIVER])];
    Ok(())
}

/// Binds the configured address of the pages, or the default address, or a free one. The address is replaced by the bound
/// one, which is printed and served: nothing else can take it in between.
fn pages(listen: &mut Listen) -> anyhow::Result<Insistence> {
    let bound = match *listen {
        Listen::Off => return Ok(Insistence::Beside),
        Listen::At(address) => TcpListener::bind(address).with_context(|| taken(address))?,
        Listen::Usual => TcpListener::bind(USUAL)
            .or_else(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
            .context("no free port for the pages; set admin.listen")?,
    };
    *listen = Listen::At(bound.local_addr()?);
    Ok(Insistence::Bound(bound))
}

/// Creates or upgrades the tables, and notes other relays, which take a part of the events.
async fn prepare(session: &Session) -> anyhow::Result<()> {
    let opened = Opened::bare(&session.settings.database).await?;
    opened.migrate().await?;
    let others = opened.inspect().relays().await?.iter().filter(|relay| relay.alive).count();
    if others > 0 {
        let relays = count(others as u64, "other relay");
        session.output.note(&format!("note: {relays} on this outbox may take events before this one"));
    }
    Ok(())
}

/// Prints where everything is.
fn begin(session: &Session, receiver: Option<&Receiver>, named: bool) -> anyhow::Result<()> {
    let Session { settings, output, .. } = session;
    let (outbox, receiver) = (settings.database.shown(), receiver.map(Receiver::url));
    let scheme = if settings.admin.tls.is_some() { "https" } else { "http" };
    let listen = settings.admin.listen;
    let pages = (listen != Listen::Off).then(|| format!("{scheme}://{}", listen.address()));
    if output.is_json() {
        return Ok(output.answer(&json!({ "outbox": outbox, "pages": pages, "receiver": receiver }), String::new)?);
    }
    let pages = pages.as_deref().unwrap_or("off: see admin.listen");
    let go = match receiver {
        Some(url) => format!("to the receiver at {url}, which prints them"),
        None => "where the routes of the configuration say".to_owned(),
    };
    let variable = if named { "PILLARBOX_DATABASE_URL=… " } else { "" };
    output.note(&format!(
        "  outbox   {outbox}\n  pages    {pages}\n  events   go {go}\n  try      {variable}pillarbox emit Order 42 \
         order.placed '{{\"total\": \"19.90\"}}'\n"
    ));
    Ok(())
}

/// Prints attempts.
#[derive(Clone)]
struct Printer {
    output: Output,
    mask: Mask,
}

/// An attempt, as it is printed.
#[derive(Debug, Serialize)]
struct Attempt<'a> {
    event_type: &'a str,
    id: &'a str,
    aggregate_type: &'a str,
    aggregate_id: &'a str,
    attempt: u32,
    payload: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    opaque_payload: Option<&'a OpaqueView>,
    /// `204`, or what went wrong.
    result: &'a str,
}

impl Printer {
    /// Starts a receiver that prints each request. It fails the first `fail` attempts of each event.
    async fn receive(&self, fail: u32) -> anyhow::Result<Receiver> {
        let printer = self.clone();
        let answer = move |headers: HeaderMap, body: Bytes| std::future::ready(printer.answer(fail, &headers, &body));
        Receiver::start("/events", answer).await
    }

    fn answer(&self, fail: u32, headers: &HeaderMap, body: &[u8]) -> (StatusCode, String) {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("?");
        let kind = header("content-type");
        let is_json = kind.ends_with("json");
        let payload = if is_json { serde_json::from_slice::<&RawValue>(body).ok() } else { None };
        if is_json && payload.is_none() {
            return (StatusCode::BAD_REQUEST, "the body is not JSON".to_owned());
        }
        let opaque = payload.is_none().then(|| OpaqueView::new(kind, body, &self.mask));
        let attempt = header("pillarbox-attempt").parse().unwrap_or(1);
        let (status, text) = match attempt <= fail {
            true => (StatusCode::INTERNAL_SERVER_ERROR, format!("--fail {fail}: attempt {attempt} fails on purpose")),
            false => (StatusCode::NO_CONTENT, String::new()),
        };
        let result = if text.is_empty() { status.as_str().to_owned() } else { format!("{}, {text}", status.as_str()) };
        self.print(&Attempt {
            event_type: header("pillarbox-event-type"),
            id: header("webhook-id"),
            aggregate_type: header("pillarbox-aggregate-type"),
            aggregate_id: header("pillarbox-aggregate-id"),
            attempt,
            payload,
            opaque_payload: opaque.as_ref(),
            result: &result,
        });
        (status, text)
    }

    fn print_event(&self, event: &StoredEvent, result: &str) {
        let bytes = event.is_opaque().then(|| event.payload_bytes().unwrap_or_default());
        let opaque = bytes.map(|bytes| OpaqueView::new(event.content_type(), &bytes, &self.mask));
        self.print(&Attempt {
            event_type: &event.event_type,
            id: &event.id.to_string(),
            aggregate_type: &event.aggregate_type,
            aggregate_id: &event.aggregate_id,
            attempt: event.attempts + 1,
            payload: opaque.is_none().then_some(&*event.payload),
            opaque_payload: opaque.as_ref(),
            result,
        });
    }

    fn print(&self, attempt: &Attempt<'_>) {
        let masked = attempt.payload.map(|payload| self.mask.apply(payload).payload);
        let shown = Attempt { payload: masked.as_deref(), ..*attempt };
        // A closed standard output does not end the relay.
        let _ = self.output.answer(&shown, || rendered(&shown));
    }
}

fn rendered(attempt: &Attempt<'_>) -> String {
    let Attempt { event_type, id, aggregate_type, aggregate_id, attempt: number, .. } = attempt;
    let Attempt { payload, opaque_payload, result, .. } = attempt;
    let opaque = opaque_payload.map(ToString::to_string);
    let text = opaque.or_else(|| payload.map(|payload| pretty(payload.get()))).unwrap_or_default();
    let payload: String = text.lines().map(|line| format!("  {line}\n")).collect();
    format!("{event_type}  {id}  {aggregate_type} {aggregate_id}  attempt {number}: {result}\n{payload}")
}

impl Observer for Printer {
    fn sent(&self, event: &StoredEvent, destination: &str, _took: std::time::Duration) -> Observed {
        self.print_event(event, &format!("delivered to {destination}"));
        Ok(())
    }

    fn failed(&self, event: &StoredEvent, destination: &str, error: &SendError) -> Observed {
        self.print_event(event, &format!("{destination} failed: {error}"));
        Ok(())
    }
}
