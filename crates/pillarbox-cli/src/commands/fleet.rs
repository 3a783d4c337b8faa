//! The running relays, compared with each other and with the configuration: relays on one outbox must route alike, because any
//! of them may claim an event.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context;
use pillarbox::store::{Finding, RelayView};

use super::Session;
use crate::config::database::Database;
use crate::config::source::SourceKind;
use crate::store::{Missing, Opened};

/// The timeout for a database that only some commands need.
const PATIENCE: Duration = Duration::from_secs(3);
const FIX: &str = "give all relays the same [destinations] and [[routes]], and restart them";

/// Returns a remark if live relays have other routes or destinations than the configuration. `None` also if the outbox does
/// not exist yet.
///
/// # Errors
/// Fails if the database cannot be read.
pub(super) async fn compare(session: &Session) -> anyhow::Result<Option<String>> {
    let database = &session.settings.database;
    let is_new = matches!(database, Database::Sqlite { path } if !path.exists());
    // Relays that also read the log work on the same tables, beside relays that do not. Relays of django-celery-outbox's tables
    // write no heartbeats.
    if is_new || session.settings.source.kind == SourceKind::DjangoCeleryOutbox {
        return Ok(None);
    }
    let relays = async {
        let opened = Opened::checked(database, Missing::Refuse).await?;
        anyhow::Ok(opened.inspect().relays().await?)
    };
    let relays =
        tokio::time::timeout(PATIENCE, relays).await.with_context(|| format!("no response within {PATIENCE:?}"))??;
    Ok(others(&relays, &session.settings.digest()).map(|others| format!("{others}; {FIX}")))
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
