//! `pillarbox dead-letters`: groups failed events by destination and error, and retries many of them at once.

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use pillarbox::store::{DeadLetters, Group};
use pillarbox_admin::Desk;
use pillarbox_admin::desk::{EventFilter, ago};
use serde_json::json;

use super::completions::destinations;
use super::events::moment;
use super::{Misuse, Session};
use crate::admin;
use crate::config::duration;
use crate::output::count;
use crate::table::{Align, Table, shortened};

mod retry;

/// The default window of the search for groups.
const WINDOW: &str = "30days";
const ERROR_WIDTH: usize = 100;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make many of them due now, with their attempts reset
    Retry(retry::Arguments),
}

/// A filter of dead letters; each flag narrows it.
#[derive(Debug, Args)]
struct Which {
    /// Event type; * matches any characters: 'order.*'
    #[arg(long = "type", value_name = "PATTERN")]
    event_type: Option<String>,
    /// Routed to this destination, or failed on it
    #[arg(long, value_name = "NAME", add = destinations())]
    destination: Option<String>,
    /// Failed within this time
    #[arg(long, value_name = "DURATION", default_value = WINDOW, value_parser = duration)]
    within: std::time::Duration,
}

impl Which {
    fn filter(&self) -> EventFilter {
        EventFilter {
            event_type: self.event_type.clone(),
            destination: self.destination.clone(),
            ..EventFilter::default()
        }
    }

    /// Returns the beginning of the window, counted from now.
    fn since(&self) -> DateTime<Utc> {
        ago(self.within)
    }
}

pub(crate) async fn run(arguments: &Arguments, session: &Session) -> anyhow::Result<()> {
    session
        .own("use Django's admin for dead letters, and retry them with `manage.py celery_outbox_replay_dead_letter`")?;
    let desk = admin::desk(session.open().await?.people(), &session.settings);
    match &arguments.command {
        None => list(&desk, &arguments.which, session).await,
        Some(Command::Retry(arguments)) => retry::run(arguments, &desk, session).await,
    }
}

async fn list(desk: &Desk, which: &Which, session: &Session) -> anyhow::Result<()> {
    let letters: DeadLetters = desk.dead_letters(&which.filter(), which.since()).await?;
    let groups: Vec<_> = letters.groups.iter().map(|group| json!({ "group": name(group), "of": group })).collect();
    let answer = json!({
        "groups": groups, "left_out": letters.left_out, "looked_at": letters.looked_at, "reached": letters.reached,
        "complete": letters.complete,
    });
    session.output.answer(&answer, || render(&letters.groups))?;
    if letters.left_out > 0 {
        session.output.note(&format!(
            "{} more are not shown; filter by --type or --destination",
            count(letters.left_out, "group")
        ));
    }
    if !letters.complete {
        let reached = letters.reached.map(moment).unwrap_or_default();
        session.output.note(&format!("only the newest {} were searched, back to {reached}", letters.looked_at));
    }
    Ok(())
}

fn render(groups: &[Group]) -> String {
    if groups.is_empty() {
        return "no dead letters".to_owned();
    }
    let mut table = Table::new([
        ("GROUP", Align::Whole),
        ("EVENTS", Align::Right),
        ("DESTINATION", Align::Left),
        ("LAST", Align::Whole),
        ("TYPES", Align::Left),
        ("ERROR", Align::Left),
    ]);
    for group in groups {
        table.row([
            name(group),
            group.count.to_string(),
            group.destination.clone().unwrap_or_else(|| "–".to_owned()),
            moment(group.last_at),
            shortened(&group.event_types.join(", "), ERROR_WIDTH),
            shortened(&group.error, ERROR_WIDTH),
        ]);
    }
    table.render()
}

/// Returns the name of a group at the terminal. It is the same on every host and at every time.
fn name(group: &Group) -> String {
    let text = format!("{}\0{}", group.destination.as_deref().unwrap_or_default(), group.error);
    // FNV-1a.
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{:08x}", hash >> 32)
}

/// Returns the group of this name.
fn named<'a>(groups: &'a [Group], wanted: &str) -> Result<&'a Group, Misuse> {
    let mut found = groups.iter().filter(|group| name(group) == wanted);
    match (found.next(), found.next()) {
        (Some(group), None) => Ok(group),
        (Some(_), Some(_)) => Err(Misuse(format!("several groups are called {wanted}; use --destination and --type"))),
        (None, _) => Err(Misuse(format!("there is no group {wanted}; `pillarbox dead-letters` lists them"))),
    }
}
