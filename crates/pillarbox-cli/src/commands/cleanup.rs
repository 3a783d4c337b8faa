//! `pillarbox cleanup`: deletes old delivered and failed events, batch by batch.

use std::time::Duration;

use clap::Args;
use pillarbox::store::Retention;
use serde_json::json;

use super::Session;
use crate::output::count;

/// The configuration applies to flags that are not given.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Delete events that were delivered longer ago than this: 168h
    #[arg(long, value_name = "DURATION", value_parser = crate::config::duration)]
    delivered_after: Option<Duration>,
    /// Delete events that failed longer ago than this: 720h
    #[arg(long, value_name = "DURATION", value_parser = crate::config::duration)]
    failed_after: Option<Duration>,
    /// Events per statement
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    batch: Option<u32>,
}

pub(crate) async fn run(arguments: &Arguments, session: &Session) -> anyhow::Result<()> {
    session
        .own("sent tasks are deleted at once, and `manage.py celery_outbox_purge_dead_letter` deletes dead letters")?;
    let configured = session.settings.relay.retention;
    let retention = Retention {
        delivered_after: arguments.delivered_after.unwrap_or(configured.delivered_after),
        failed_after: arguments.failed_after.unwrap_or(configured.failed_after),
        batch: arguments.batch.map_or(configured.batch, |batch| batch as usize),
    };
    let store = session.open().await?.store();
    let mut deleted = 0;
    let last = loop {
        let cleaned = store.cleanup(&retention).await?;
        deleted += cleaned.deleted;
        if cleaned.elsewhere || cleaned.deleted == 0 || !cleaned.more {
            break cleaned;
        }
        session.output.note(&format!("{deleted} deleted so far"));
    };
    // While a relay is cleaning up, the remaining events cannot be counted.
    let remaining = (!last.elsewhere && !last.more).then_some(0);
    let answer = json!({ "deleted": deleted, "remaining": remaining, "elsewhere": last.elsewhere });
    session.output.answer(&answer, || {
        let deleted = count(deleted, "old event");
        match (last.elsewhere, remaining) {
            (true, _) => format!("deleted {deleted}; stopped, because a relay is cleaning up right now"),
            (false, None) => format!("deleted {deleted}; more are locked by other transactions; run it again"),
            (false, Some(remaining)) => format!("deleted {deleted}, {remaining} remaining"),
        }
    })?;
    Ok(())
}
