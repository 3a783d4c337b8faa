//! The running relays, compared with each other and with the configuration: relays on one outbox must route alike, because any
//! of them may claim an event.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context;
use pillarbox::store::{Finding, Level, RelayView};

use super::Session;
use crate::config::database::Database;
use crate::config::source::SourceKind;
use crate::store::{Missing, Opened};

/// The timeout for a database that only some commands need.
const PATIENCE: Duration = Duration::from_secs(10);
const FIX: &str = "give all relays the same [destinations] and [[routes]], and restart them";

/// Returns remarks on live relays that have other routes or destinations than the configuration, and on a log that the relay could
/// not read. None if the outbox does not exist yet.
///
/// # Errors
/// Fails if the database cannot be read.
pub(super) async fn compare(session: &Session) -> anyhow::Result<Vec<String>> {
    let database = &session.settings.database;
    let is_new = matches!(database, Database::Sqlite { path } if !path.exists());
    // Relays that also read the log work on the same tables, beside relays that do not. Relays of django-celery-outbox's tables
    // write no heartbeats.
    if is_new || session.settings.source.kind == SourceKind::DjangoCeleryOutbox {
        return Ok(Vec::new());
    }
    let looks = async {
        let opened = Opened::checked(database, Missing::Refuse).await?;
        anyhow::Ok((opened.inspect().relays().await?, of_log(&opened, session).await?))
    };
    let (relays, mut remarks) =
        tokio::time::timeout(PATIENCE, looks).await.with_context(|| format!("no response within {PATIENCE:?}"))??;
    remarks.extend(others(&relays, &session.settings.digest()).map(|others| format!("{others}; {FIX}")));
    Ok(remarks)
}

/// Returns what keeps a relay from reading the log, if the configuration says that it does.
async fn of_log(opened: &Opened, session: &Session) -> anyhow::Result<Vec<String>> {
    let source = &session.settings.source;
    let (Opened::Postgres(store), SourceKind::Wal) = (opened, source.kind) else { return Ok(Vec::new()) };
    let mut findings: Vec<Finding> = store.log_disabled().await?.into_iter().collect();
    if let Some(mut status) = store.log_status().await? {
        // The relay is about to be started.
        status.is_led = true;
        findings.extend(status.findings().into_iter().filter(|finding| finding.level == Level::Bad));
    }
    Ok(findings.into_iter().map(|finding| format!("{}; {}", finding.found, finding.fix)).collect())
}

/// Checks that live relays agree with each other and with the configuration.
pub(super) fn findings(relays: &[RelayView], own: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let groups = groups(relays);
    if groups.len() > 1 {
        let hosts: Vec<String> = groups.values().map(|hosts| hosts.join(", ")).collect();
        let found = format!("relays disagree on routes or destinations: {}", hosts.join(" against "));
        findings.push(Finding::bad("routes", found, FIX));
    } else if !groups.is_empty() {
        findings.push(Finding::good("routes", "all relays have the same routes and destinations"));
    }
    findings.extend(others(relays, own).map(|others| Finding::notice("routes", others, FIX)));
    findings
}

/// Describes the live relays whose digest is not this one.
fn others(relays: &[RelayView], own: &str) -> Option<String> {
    let groups = groups(relays);
    let others: Vec<&str> =
        groups.iter().filter(|(digest, _)| **digest != own).flat_map(|(_, hosts)| hosts).copied().collect();
    let all: usize = groups.values().map(Vec::len).sum();
    (!others.is_empty()).then(|| {
        let count = if others.len() == all { "all".to_owned() } else { format!("{} of {all}", others.len()) };
        format!(
            "running relays have other routes or destinations than this configuration: {} ({count})",
            others.join(", ")
        )
    })
}

/// Returns the hosts of the live relays, by their digest. Relays without a digest are left out: they run in an application.
fn groups(relays: &[RelayView]) -> BTreeMap<&str, Vec<&str>> {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for relay in relays.iter().filter(|relay| relay.alive) {
        if let Some(digest) = &relay.configuration {
            groups.entry(digest).or_default().push(&relay.host);
        }
    }
    groups
}
