//! `[relay]`: claims, retries and cleanup.

use std::path::PathBuf;
use std::time::Duration;

use pillarbox::relay::BreakerSettings;
use pillarbox::store::Retention;
use pillarbox::{ClaimBy, OnDelivered, OnFailed, Order, RecordAttempts, RelaySettings, RetryPolicy, Unrouted};
use pillarbox_sinks::config::{Section, Size, positive, some_bytes, some_time};

use super::source::SourceKind;

pub(super) const ON_DELIVERED: [(&str, OnDelivered); 2] =
    [("keep", OnDelivered::Keep), ("delete", OnDelivered::Delete)];
pub(super) const RECORD_ATTEMPTS: [(&str, RecordAttempts); 2] =
    [("failed", RecordAttempts::Failed), ("all", RecordAttempts::All)];
pub(super) const CLAIM_BY: [(&str, ClaimBy); 3] =
    [("auto", ClaimBy::Auto), ("lease", ClaimBy::Lease), ("lock", ClaimBy::Lock)];
pub(super) const UNROUTED: [(&str, Unrouted); 2] = [("park", Unrouted::Park), ("discard", Unrouted::Discard)];
pub(super) const ORDER: [(&str, Ordered); 2] = [("none", Ordered::No), ("aggregate", Ordered::ByAggregate)];
pub(super) const ON_FAILED: [(&str, OnFailed); 2] = [("block", OnFailed::Block), ("skip", OnFailed::Skip)];

/// The choices of `order`. The effect of a failed event is a separate key.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Ordered {
    No,
    ByAggregate,
}

impl Ordered {
    pub(super) fn of(order: Order) -> (Self, OnFailed) {
        match order {
            Order::None => (Self::No, OnFailed::default()),
            Order::Aggregate(on_failed) => (Self::ByAggregate, on_failed),
        }
    }
}

/// Returns the relay's settings, and its liveness file.
pub(super) fn lower(mut section: Section<'_>, source: SourceKind) -> (RelaySettings, Option<PathBuf>) {
    let default = source.usual_relay();
    let adopted = source == SourceKind::DjangoCeleryOutbox;
    let order = lower_order(&mut section, adopted);
    let (cleanup_every, retention) = lower_cleanup(section.section("cleanup"), &default);
    let poll_interval = section.take_checked("poll_interval", some_time).unwrap_or(default.poll_interval);
    let settings = RelaySettings {
        batch_size: section.take_checked("batch_size", positive).unwrap_or(default.batch_size),
        concurrency: section.take_checked("concurrency", positive).unwrap_or(default.concurrency),
        poll_interval,
        // On adopted tables nothing wakes a relay, so it always polls at the configured interval.
        poll_interval_unwoken: if adopted { poll_interval } else { default.poll_interval_unwoken },
        lease: section.take_checked("lease", some_time).unwrap_or(default.lease),
        shutdown_timeout: section.take("shutdown_timeout").unwrap_or(default.shutdown_timeout),
        on_delivered: section.choose("on_delivered", &ON_DELIVERED).unwrap_or(default.on_delivered),
        record_attempts: section.choose("record_attempts", &RECORD_ATTEMPTS).unwrap_or(default.record_attempts),
        claim_by: section.choose("claim_by", &CLAIM_BY).unwrap_or(default.claim_by),
        unrouted: section.choose("unrouted", &UNROUTED).unwrap_or(default.unrouted),
        order,
        retry: lower_retry(section.section("retry"), default.retry, adopted),
        cleanup_every,
        retention,
        log_prefix: default.log_prefix,
        host: default.host,
        configuration: None,
        bytes_in_flight: section
            .take_checked("bytes_in_flight", some_bytes)
            .map_or(default.bytes_in_flight, |Size(bytes)| bytes),
        breaker: lower_breaker(section.section("breaker"), default.breaker),
    };
    let liveness_file = section.take("liveness_file").map(|path: String| PathBuf::from(path));
    section.finish();
    (settings, liveness_file)
}

fn lower_order(section: &mut Section<'_>, adopted: bool) -> Order {
    let ordered = section.choose("order", &ORDER).unwrap_or(Ordered::No);
    let on_failed = section.choose("order_on_failed", &ON_FAILED).unwrap_or_default();
    match ordered {
        Ordered::No => Order::None,
        Ordered::ByAggregate if adopted => {
            let why = r#"is "aggregate", but the tasks of django-celery-outbox have no aggregates; write "none""#;
            section.problem("order", why);
            Order::None
        }
        Ordered::ByAggregate => Order::Aggregate(on_failed),
    }
}

/// Reads the retry policy. With a cap below its base, django-celery-outbox always waits for the cap, so its tables allow
/// that.
fn lower_retry(mut section: Section<'_>, default: RetryPolicy, cap_may_be_less: bool) -> RetryPolicy {
    let share = |jitter: &f64| match jitter {
        0.0..=1.0 => Ok(()),
        _ => Err(format!("is {jitter}, but must be a share from 0.0 to 1.0: 0.1 is up to 10 %")),
    };
    let policy = RetryPolicy {
        base: section.take_checked("base", some_time).unwrap_or(default.base),
        cap: section.take_checked("cap", some_time).unwrap_or(default.cap),
        jitter: section.take_checked("jitter", share).unwrap_or(default.jitter),
        max_attempts: section.take("max_attempts").unwrap_or(default.max_attempts),
    };
    if policy.cap < policy.base && !cap_may_be_less {
        let (cap, base) = (humantime::format_duration(policy.cap), humantime::format_duration(policy.base));
        section.problem(
            "cap",
            format_args!("is {cap}, which is less than the base of {base}; raise it or lower the base"),
        );
    }
    section.finish();
    policy
}

fn lower_breaker(mut section: Section<'_>, default: BreakerSettings) -> BreakerSettings {
    let at_least_one =
        |number: &u32| if *number == 0 { Err("is 0, but must be at least 1".to_owned()) } else { Ok(()) };
    let settings = BreakerSettings {
        threshold: section.take_checked("threshold", at_least_one).unwrap_or(default.threshold),
        base: section.take_checked("base", some_time).unwrap_or(default.base),
        cap: section.take_checked("cap", some_time).unwrap_or(default.cap),
        patience: section.take_checked("patience", at_least_one).unwrap_or(default.patience),
    };
    if settings.cap < settings.base {
        let (cap, base) = (humantime::format_duration(settings.cap), humantime::format_duration(settings.base));
        section.problem(
            "cap",
            format_args!("is {cap}, which is less than the base of {base}; raise it or lower the base"),
        );
    }
    section.finish();
    settings
}

/// Reads the cleanup. `every = "0s"` means that relays do not clean up.
fn lower_cleanup(mut section: Section<'_>, default: &RelaySettings) -> (Option<Duration>, Retention) {
    let every: Option<Duration> = section.take("every");
    let retention = Retention {
        delivered_after: section.take("delivered_after").unwrap_or(default.retention.delivered_after),
        failed_after: section.take("failed_after").unwrap_or(default.retention.failed_after),
        batch: section.take_checked("batch", positive).unwrap_or(default.retention.batch),
    };
    section.finish();
    (every.map_or(default.cleanup_every, |every| Some(every).filter(|every| !every.is_zero())), retention)
}
