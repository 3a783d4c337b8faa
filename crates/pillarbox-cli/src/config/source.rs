//! `[source]`: the tables, and perhaps the log, that the relay delivers from, and the defaults for them.

use std::time::Duration;

use pillarbox::source::wal::{OutboxColumns, OutboxTable, WalSettings};
use pillarbox::{OnDelivered, RelaySettings, RetryPolicy};
use pillarbox_sinks::Secret;
use pillarbox_sinks::config::{SecretRef, Section, some_time};

use super::environment::Environment;

pub(super) const KINDS: [(&str, SourceKind); 3] = [
    ("outbox_event", SourceKind::OutboxEvent),
    (WAL, SourceKind::Wal),
    (DJANGO_CELERY_OUTBOX, SourceKind::DjangoCeleryOutbox),
];
/// The kind's name in the configuration.
pub(crate) const WAL: &str = "wal";
/// The kind's name in the configuration.
pub(crate) const DJANGO_CELERY_OUTBOX: &str = "django-celery-outbox";

const COOLDOWN: Duration = Duration::from_secs(30);
/// A leader that beats once a second would lose a shorter lease all the time.
const SHORTEST_LEASE: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SourceKind {
    /// Pillarbox's own tables.
    OutboxEvent,
    /// Pillarbox's own tables and PostgreSQL's write-ahead log.
    Wal,
    /// The tables of django-celery-outbox, unchanged.
    DjangoCeleryOutbox,
}

#[derive(Debug, Clone)]
pub(crate) struct SourceSettings {
    pub(crate) kind: SourceKind,
    /// How long a task of django-celery-outbox is delayed while the broker is down.
    pub(crate) cooldown: Duration,
    /// The direct URL of the log's server.
    pub(crate) url: Option<Secret>,
    /// How long a relay leads the reading of the log without a heartbeat.
    pub(crate) lease: Duration,
    /// Whether undelivered events in the log may be lost with the server.
    pub(crate) accept_failover_loss: bool,
    /// Whether rows of the outbox table are read from the log.
    pub(crate) tables: bool,
    /// The outbox table of the application.
    pub(crate) table: OutboxTable,
}

impl SourceSettings {
    /// Returns the outbox table, if its rows are read.
    pub(crate) fn outbox_table(&self) -> Option<&OutboxTable> {
        self.tables.then_some(&self.table)
    }
}

pub(super) fn lower(mut section: Section<'_>, environment: &Environment) -> SourceSettings {
    let mut url = None;
    section.take_checked("url", |given: &SecretRef| {
        let given = given.resolve(environment)?;
        if !["postgres://", "postgresql://"].iter().any(|scheme| given.expose().starts_with(scheme)) {
            return Err(
                "is not the URL of a PostgreSQL server; write postgres://USER:PASSWORD@HOST/DATABASE".to_owned()
            );
        }
        url = Some(given);
        Ok(())
    });
    let kind = section.choose("kind", &KINDS).unwrap_or(SourceKind::OutboxEvent);
    let only_for_the_log = |tables: &bool| match (tables, kind) {
        (true, SourceKind::OutboxEvent | SourceKind::DjangoCeleryOutbox) => Err(format!(
            "is true, but rows are read from the log with kind = {WAL:?} only; set it, or leave tables out"
        )),
        _ => Ok(()),
    };
    let settings = SourceSettings {
        kind,
        tables: section.take_checked("tables", only_for_the_log).unwrap_or(false),
        table: lower_table(&mut section),
        cooldown: section.take_checked("cooldown", some_time).unwrap_or(COOLDOWN),
        url,
        lease: section.take_checked("lease", long_enough).unwrap_or(WalSettings::default().lease),
        accept_failover_loss: section.take("accept_failover_loss").unwrap_or_default(),
    };
    section.finish();
    settings
}

/// Accepts the lease of the log's leader.
fn long_enough(lease: &Duration) -> Result<(), String> {
    if *lease < SHORTEST_LEASE {
        return Err(format!("is {lease:?}, but must be at least 2s: the leader renews it once a second"));
    }
    Ok(())
}

fn lower_table(section: &mut Section<'_>) -> OutboxTable {
    let mut table = OutboxTable::default();
    section.take_checked("table", |name: &String| {
        table = OutboxTable::named(name).map_err(|_| {
            format!("is {name:?}, but must be schema.table, as the catalogs spell it and without quotes: \"public.outboxevent\"")
        })?;
        Ok(())
    });
    table.columns = lower_columns(section.section("columns"));
    table
}

fn lower_columns(mut section: Section<'_>) -> OutboxColumns {
    let named = |name: &String| match name.as_str() {
        "" => Err("is empty; write the name of a column".to_owned()),
        _ => Ok(()),
    };
    let mut columns = OutboxColumns::default();
    let required = [
        ("id", &mut columns.id),
        ("aggregate_type", &mut columns.aggregate_type),
        ("aggregate_id", &mut columns.aggregate_id),
        ("event_type", &mut columns.event_type),
        ("payload", &mut columns.payload),
    ];
    for (key, column) in required {
        if let Some(name) = section.take_checked(key, named) {
            *column = name;
        }
    }
    columns.created_at = section.take_checked("created_at", named);
    columns.headers = section.take_checked("headers", named);
    columns.trace = section.take_checked("trace", named).or(columns.trace);
    section.take_checked("header_columns", |given: &Vec<String>| {
        for text in given {
            let (column, header) = text.split_once(':').unwrap_or((text.as_str(), text.as_str()));
            if column.is_empty() || header.is_empty() {
                return Err(format!("contains {text:?}, but must list columns, or \"column:header\" for another name"));
            }
            columns.header_columns.push((column.to_owned(), header.to_owned()));
        }
        Ok(())
    });
    section.finish();
    columns
}

impl SourceKind {
    /// Returns the default settings of a relay on these tables.
    pub(super) fn usual_relay(self) -> RelaySettings {
        match self {
            Self::OutboxEvent | Self::Wal => RelaySettings::default(),
            // As its own relay, but polling more often, because nothing wakes it.
            Self::DjangoCeleryOutbox => RelaySettings {
                retry: RetryPolicy { base: Duration::from_secs(120), ..RetryPolicy::default() },
                poll_interval: Duration::from_millis(50),
                on_delivered: OnDelivered::Delete,
                cleanup_every: None,
                log_prefix: "celery_outbox",
                ..RelaySettings::default()
            },
        }
    }

    /// Returns the default prefix of the metrics' names.
    pub(super) fn usual_prefix(self) -> &'static str {
        match self {
            Self::OutboxEvent | Self::Wal => "pillarbox",
            Self::DjangoCeleryOutbox => "celery_outbox",
        }
    }
}
