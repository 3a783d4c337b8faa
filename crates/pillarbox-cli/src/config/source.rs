//! `[source]`: the tables, and perhaps the log, that the relay delivers from, and the defaults for them.

use std::time::Duration;

use pillarbox::source::wal::WalSettings;
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
    let settings = SourceSettings {
        kind: section.choose("kind", &KINDS).unwrap_or(SourceKind::OutboxEvent),
        cooldown: section.take_checked("cooldown", some_time).unwrap_or(COOLDOWN),
        url,
        lease: section.take_checked("lease", some_time).unwrap_or(WalSettings::default().lease),
    };
    section.finish();
    settings
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
