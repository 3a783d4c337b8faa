//! `[source]`: the tables that the relay delivers from, and the defaults for them.

use std::time::Duration;

use pillarbox::{OnDelivered, RelaySettings, RetryPolicy};
use pillarbox_sinks::config::{Section, some_time};

pub(super) const KINDS: [(&str, SourceKind); 2] =
    [("outbox_event", SourceKind::OutboxEvent), (DJANGO_CELERY_OUTBOX, SourceKind::DjangoCeleryOutbox)];
/// The kind's name in the configuration.
pub(crate) const DJANGO_CELERY_OUTBOX: &str = "django-celery-outbox";

const COOLDOWN: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SourceKind {
    /// Pillarbox's own tables.
    OutboxEvent,
    /// The tables of django-celery-outbox, unchanged.
    DjangoCeleryOutbox,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct SourceSettings {
    pub(crate) kind: SourceKind,
    /// How long a task of django-celery-outbox is delayed while the broker is down.
    pub(crate) cooldown: Duration,
}

pub(super) fn lower(mut section: Section<'_>) -> SourceSettings {
    let settings = SourceSettings {
        kind: section.choose("kind", &KINDS).unwrap_or(SourceKind::OutboxEvent),
        cooldown: section.take_checked("cooldown", some_time).unwrap_or(COOLDOWN),
    };
    section.finish();
    settings
}

impl SourceKind {
    /// Returns the default settings of a relay on these tables.
    pub(super) fn usual_relay(self) -> RelaySettings {
        match self {
            Self::OutboxEvent => RelaySettings::default(),
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
            Self::OutboxEvent => "pillarbox",
            Self::DjangoCeleryOutbox => "celery_outbox",
        }
    }
}
