//! `[source]`: whose tables the relay delivers from, and what is usual there.

use std::time::Duration;

use pillarbox::{OnDelivered, RelaySettings, RetryPolicy};
use pillarbox_sinks::config::{Section, some_time};

pub(super) const KINDS: [(&str, SourceKind); 2] =
    [("outbox_event", SourceKind::OutboxEvent), (DJANGO_CELERY_OUTBOX, SourceKind::DjangoCeleryOutbox)];
/// As it is written.
pub(crate) const DJANGO_CELERY_OUTBOX: &str = "django-celery-outbox";

const COOLDOWN: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SourceKind {
    /// Our own tables.
    OutboxEvent,
    /// Those of django-celery-outbox, adopted as they are.
    DjangoCeleryOutbox,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct SourceSettings {
    pub(crate) kind: SourceKind,
    /// How long a task of django-celery-outbox is put off by a broker that is down.
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
    /// How a relay works there, unless the configuration says otherwise.
    pub(super) fn usual_relay(self) -> RelaySettings {
        match self {
            Self::OutboxEvent => RelaySettings::default(),
            // As its own relay, but that it looks more often: nothing wakes it.
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

    /// What the names of the metrics begin with.
    pub(super) fn usual_prefix(self) -> &'static str {
        match self {
            Self::OutboxEvent => "pillarbox",
            Self::DjangoCeleryOutbox => "celery_outbox",
        }
    }
}
