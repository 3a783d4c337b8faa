//! `pillarbox wal`: enables and disables PostgreSQL's write-ahead log as the outbox, and shows its state.

use clap::Subcommand;
use pillarbox::store::Level;
use pillarbox::store::postgres::{LogSettings, LogStatus, LogWait, OutboxTable, PostgresStore};
use serde_json::json;

use super::{Misuse, Session};
use crate::config::source::SourceSettings;
use crate::output::Output;
use crate::store::Opened;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create the replication slot. Once a relay with [source] kind = "wal" runs, repeatable events go through the log
    Enable {
        /// The name of the replication slot; by default pillarbox_SCHEMA_DATABASE
        #[arg(long, value_name = "NAME")]
        slot: Option<String>,
        /// The largest event that goes into the log, in bytes of payload and headers
        #[arg(long, value_name = "BYTES", default_value_t = LogSettings::default().size_limit, value_parser = clap::value_parser!(i32).range(0..))]
        size_limit: i32,
        /// Also read the rows of this outbox table of the application, with the columns in [source.columns]; by default [source] table, if
        /// [source] tables is true. Can be added to a log that is enabled
        #[arg(long, value_name = "SCHEMA.TABLE")]
        table: Option<String>,
    },
    /// The slot, its leader, how far it is behind, and whether events go into the log
    Status,
    /// Let a relay deliver the rest of the log, then drop the replication slot
    Disable {
        /// Without a relay: give undelivered events in the log up. Says how much that may be, and asks for --yes
        #[arg(long)]
        force: bool,
        /// Give them up
        #[arg(long, requires = "force")]
        yes: bool,
    },
}

pub(crate) async fn run(command: &Command, session: &Session) -> anyhow::Result<()> {
    let Some(store) = Opened::postgres(&session.settings.database).await? else {
        let database = session.settings.database.shown();
        return Err(Misuse(format!("the write-ahead log is PostgreSQL's; database.url is {database}")).into());
    };
    match command {
        Command::Enable { slot, size_limit, table } => {
            let settings = LogSettings {
                slot: slot.clone(),
                size_limit: *size_limit,
                accept_failover_loss: session.settings.source.accept_failover_loss,
                table: outbox_table(table.as_deref(), &session.settings.source)?,
                ..LogSettings::default()
            };
            enable(&store, &settings, session).await
        }
        Command::Status => status(&store, session).await,
        Command::Disable { force: false, .. } => {
            if let Some(table) = store.log_status().await?.and_then(|status| status.tables.into_iter().next()) {
                session.output.note(&format!(
                    "rows that are inserted into {table} from now on may not be delivered: its application should not write any more, or another \
                     program should read its rows by now"
                ));
            }
            let was_enabled = store.log_disable(&mut |wait| tell(session.output, &wait)).await?;
            disabled(was_enabled, session.output)
        }
        Command::Disable { force: true, yes } => force(&store, *yes, session.output).await,
    }
}

/// Returns the table to read rows of: that of the command line with the configured columns, or that of the configuration.
fn outbox_table(given: Option<&str>, source: &SourceSettings) -> anyhow::Result<Option<OutboxTable>> {
    let Some(given) = given else { return Ok(source.outbox_table().cloned()) };
    let mut table = OutboxTable::named(given).map_err(Misuse)?;
    table.columns = source.table.columns.clone();
    match source.outbox_table() {
        Some(configured) if *configured != table => {
            Err(Misuse(format!("--table is {table}, but [source] table is {configured}; name the same")).into())
        }
        _ => Ok(Some(table)),
    }
}

async fn enable(store: &PostgresStore, settings: &LogSettings, session: &Session) -> anyhow::Result<()> {
    let output = session.output;
    let status = store.log_enable(settings, &mut |wait| tell(output, &wait)).await?;
    let mut next = vec!["kind = \"wal\"".to_owned()];
    if let Some(table) = &settings.table {
        output.note(&format!(
            "rows that are inserted into {table} from now on are in the log; those that are in it already are not, see docs/wal.md"
        ));
        next.push("tables = true".to_owned());
        if table.to_string() != session.settings.source.table.to_string() {
            next.push(format!("table = \"{table}\""));
        }
    }
    Ok(output.answer(&json!({ "enabled": true, "status": &status }), || {
        format!(
            "the log is enabled, with the replication slot {}\nnext: start a relay with [source] {}; its role needs the attribute \
             REPLICATION, which a superuser gives: ALTER ROLE … REPLICATION;",
            status.slot,
            next.join(", ")
        )
    })?)
}

async fn status(store: &PostgresStore, session: &Session) -> anyhow::Result<()> {
    let status = store.log_status().await?;
    let mut findings = status.as_ref().map(LogStatus::findings).unwrap_or_default();
    findings.extend(store.log_table_findings(session.settings.source.outbox_table()).await?);
    let answer = json!({ "enabled": status.is_some(), "status": &status, "findings": &findings });
    Ok(session.output.answer(&answer, || match &status {
        None => "the log is not enabled; `pillarbox wal enable` enables it".to_owned(),
        Some(status) => {
            let mut text = render(status);
            for finding in findings.iter().filter(|finding| finding.level != Level::Good) {
                let fix = if finding.fix.is_empty() { String::new() } else { format!("\n  → {}", finding.fix) };
                text.push_str(&format!("\n{}{fix}", finding.found));
            }
            text
        }
    })?)
}

async fn force(store: &PostgresStore, yes: bool, output: Output) -> anyhow::Result<()> {
    let Some(status) = store.log_status().await? else { return disabled(false, output) };
    // A relay cannot read a slot that is lost, and goes on leading.
    if status.is_led && status.is_whole() {
        return Err(
            Misuse("a relay reads the log and delivers the rest of it; run this without --force".to_owned()).into()
        );
    }
    if !yes {
        let bytes = status.undelivered_bytes.map_or("an unknown number of".to_owned(), |bytes| bytes.to_string());
        let from = status.confirmed.as_deref().unwrap_or("its beginning");
        return Err(Misuse(format!(
            "{bytes} bytes of the log, behind {from}, were not read; events in them would be lost. Start a relay with [source] kind = \"wal\" and run \
             this without --force, or add --yes to give them up"
        ))
        .into());
    }
    let was_enabled = store.log_disable_now().await?;
    disabled(was_enabled, output)
}

fn disabled(was_enabled: bool, output: Output) -> anyhow::Result<()> {
    let text =
        if was_enabled { "the log is disabled; all events go into the table" } else { "the log was not enabled" };
    Ok(output.answer(&json!({ "enabled": false, "changed": was_enabled }), || text.to_owned())?)
}

fn tell(output: Output, wait: &LogWait) {
    match wait {
        LogWait::Transactions(open) => output.note(&format!("waiting for open transactions: {}", open.join("; "))),
        LogWait::Relay(bytes) => {
            output.note(&format!("waiting for the relay to deliver the rest of the log: {bytes} bytes"));
        }
        _ => {}
    }
}

fn render(status: &LogStatus) -> String {
    let bytes = |bytes: Option<i64>| bytes.map_or("unknown".to_owned(), |bytes| format!("{bytes} bytes"));
    let leader = match (&status.leader, status.is_led) {
        (Some(leader), true) => format!("{leader}, epoch {}", status.epoch),
        _ => format!("none, epoch {}", status.epoch),
    };
    let events = match (status.is_open, status.leaving, status.closed.as_str()) {
        (true, _, _) => "go into the log".to_owned(),
        (false, true, _) => "go into the table: the log is being disabled".to_owned(),
        (false, false, "") => "go into the table: no relay has opened the log".to_owned(),
        (false, false, why) => format!("go into the table: {why}"),
    };
    let slot = match (&status.wal_status, status.is_active) {
        _ if !status.has_slot => "does not exist".to_owned(),
        (state, is_active) => {
            format!(
                "{}, {}",
                state.as_deref().unwrap_or("unknown"),
                if is_active { "read by a relay" } else { "not read" }
            )
        }
    };
    let failover = match (status.fails_over, &status.standby_slots) {
        (Some(true), Some(standbys)) => format!("yes; the server waits for {standbys}"),
        (Some(true), None) => "yes".to_owned(),
        (Some(false), _) => "no".to_owned(),
        (None, _) => "no; PostgreSQL 17 and newer have failover slots".to_owned(),
    };
    let rows = [
        ("repeatable events", events),
        ("leader", leader),
        ("confirmed", status.confirmed.clone().unwrap_or_else(|| "nothing yet".to_owned())),
        ("undelivered log", bytes(status.undelivered_bytes)),
        ("behind", format!("{:.1} s", status.behind_seconds)),
        ("slot", format!("{}: {slot}", status.slot)),
        ("failover slot", failover),
        ("retained log", bytes(status.retained_bytes)),
        ("left until lost", bytes(status.safe_wal_bytes)),
        ("largest event", bytes(status.size_limit.filter(|limit| *limit >= 0).map(i64::from))),
        ("rows of", if status.tables.is_empty() { "no table".to_owned() } else { status.tables.join(", ") }),
    ];
    rows.map(|(name, value)| format!("{name:<19}{value}")).join("\n")
}
