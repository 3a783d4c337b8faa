//! `pillarbox doctor`: finds problems of the database and the configuration, each with what to do about it.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use pillarbox::delivery::UNROUTED;
use pillarbox::store::{Filter, Finding, Level, Paging};
use pillarbox::{Destination, Inspect};
use pillarbox_sinks::config::ConfigError;

use super::check_config::remarks;
use super::{Session, fleet};
use crate::config::Settings;
use crate::config::destination::build;
use crate::config::source::SourceKind;
use crate::output::count;
use crate::store::{Missing, Opened};

/// The number of unrouted events that are read, and of their types that are named.
const UNROUTED_SHOWN: usize = 100;
const TYPES_SHOWN: usize = 5;

pub(crate) async fn run(session: &Session) -> anyhow::Result<ExitCode> {
    session.own("use `manage.py celery_outbox_stats` for its tables")?;
    let opened = Opened::unchecked(&session.settings.database, Missing::Refuse).await?;
    let mut findings = opened.inspect().examine().await?;
    if let Opened::Postgres(store) = &opened {
        // A database that cannot be read is a finding of the store.
        findings.extend(store.log_table_findings(session.settings.source.outbox_table()).await.unwrap_or_default());
        if session.settings.source.kind == SourceKind::Wal {
            findings.extend(store.log_disabled().await.unwrap_or_default());
        }
    }
    findings.extend(undelivered(opened.inspect()).await);
    if let Ok(relays) = opened.inspect().relays().await {
        findings.extend(fleet::findings(&relays, &session.settings.digest()));
    }
    findings.extend(leases(&session.settings));
    findings.extend(destinations(session).await);
    findings.extend(remarks(session).into_iter().map(|remark| Finding::notice("configuration", remark, "")));
    let worst = findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Good);
    session.output.answer(&findings, || render(&findings))?;
    Ok(if worst == Level::Bad { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Checks for dead letters and for events without a route. Tables that cannot be read are a finding of the store.
async fn undelivered(inspect: &dyn Inspect) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Ok(depth) = inspect.depth().await {
        findings.push(match depth.failed {
            0 => Finding::good("dead letters", "none"),
            failed => Finding::notice(
                "dead letters",
                count(failed, "event"),
                "`pillarbox dead-letters` groups them by error; `pillarbox dead-letters retry` makes them due again",
            ),
        });
    }
    let filter = Filter { parked_on: Some(UNROUTED.to_owned()), ..Filter::default() };
    if let Ok(page) = inspect.list(&filter, &Paging::first(UNROUTED_SHOWN)).await
        && !page.events.is_empty()
    {
        let types: BTreeSet<&str> = page.events.iter().map(|event| event.event_type.as_str()).collect();
        let types: Vec<&str> = types.into_iter().take(TYPES_SHOWN).collect();
        let number = page.events.len() as u64;
        let number = if page.next.is_some() {
            format!("{number} or more waiting events")
        } else {
            count(number, "waiting event")
        };
        let found = format!("no route matches {number}: {}", types.join(", "));
        findings.push(Finding::bad("unrouted events", found, "add [[routes]] that match them, and restart the relays"));
    }
    findings
}

/// Warns of a timeout that is longer than half a lease. Its sends need lease renewals, and are repeated if a renewal fails.
fn leases(settings: &Settings) -> Option<Finding> {
    let lease = settings.relay.lease;
    let long = settings.destinations.iter().filter(|destination| destination.timeout * 2 > lease);
    let names: Vec<&str> = long.map(|destination| destination.name.as_str()).collect();
    (!names.is_empty()).then(|| {
        let found = format!("a send to {} may take more than half of a lease ({lease:?})", names.join(", "));
        Finding::notice("leases", found, "make relay.lease longer, or the destination's timeout shorter")
    })
}

/// Checks all destinations at once, so that a silent one takes no longer than its own timeout.
async fn destinations(session: &Session) -> Vec<Finding> {
    let settings = &session.settings;
    let asked = settings.destinations.iter().map(async |destination| {
        let built = build(destination, &session.environment, &settings.admin.mask);
        examine(&destination.name, built, settings.relay.lease).await
    });
    futures_util::future::join_all(asked).await.concat()
}

/// Checks that a destination is reachable, and asks its sink for notes on the receiver's settings.
async fn examine(name: &str, built: Result<Destination, ConfigError>, lease: Duration) -> Vec<Finding> {
    let reached = match &built {
        Ok(built) => built.reach().await.map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    if let Err(error) = reached {
        let fix = format!("its events are parked until it is reachable; see [destinations.{name}]");
        return vec![Finding::bad("destination", format!("{name} is unreachable: {error}"), fix)];
    }
    let mut findings = vec![Finding::good("destination", format!("{name} is reachable"))];
    if let Ok(built) = &built {
        let notes = built.advise(lease).await;
        findings.extend(notes.into_iter().map(|note| Finding::notice("destination", format!("{name}: {note}"), "")));
    }
    findings
}

fn render(findings: &[Finding]) -> String {
    let mut text = String::new();
    for Finding { about, level, found, fix } in findings {
        let mark = match level {
            Level::Good => "ok ",
            Level::Notice => "note",
            Level::Bad => "BAD",
        };
        text.push_str(&format!("{mark:<5}{about:<19}{found}\n"));
        if !fix.is_empty() {
            text.push_str(&format!("{:24}→ {fix}\n", ""));
        }
    }
    text
}
