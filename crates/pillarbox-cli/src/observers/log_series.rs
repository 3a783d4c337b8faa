//! Prometheus: the metrics of the write-ahead log, as the relay that reads it counts them.

use pillarbox::source::wal::WalStore;
use prometheus::{Gauge, IntCounter, IntGauge, Registry};

use super::prometheus::registered;

pub(super) struct LogSeries {
    log: WalStore,
    delivered: IntCounter,
    spilled: IntCounter,
    forged: IntCounter,
    unreadable: IntCounter,
    lag_bytes: IntGauge,
    lag: Gauge,
    left: IntGauge,
    keep: IntGauge,
    leads: IntGauge,
    open: IntGauge,
    table_missing: IntGauge,
}

impl LogSeries {
    pub(super) fn new(registry: &Registry, log: WalStore) -> Result<Self, prometheus::Error> {
        let counter = |name, help| registered(registry, IntCounter::new(name, help)?);
        let gauge = |name, help| registered(registry, IntGauge::new(name, help)?);
        Ok(Self {
            delivered: counter("log_events_delivered_total", "Events of the write-ahead log delivered without a row")?,
            spilled: counter("log_events_spilled_total", "Events of the write-ahead log that went into the table")?,
            forged: counter("log_messages_forged_total", "Messages in the log without the secret, which are ignored")?,
            unreadable: counter(
                "log_messages_unreadable_total",
                "Messages and rows in the log that became dead letters",
            )?,
            lag_bytes: gauge(
                "log_lag_bytes",
                "The part of the log that is not confirmed; 0 if another relay reads it",
            )?,
            lag: registered(
                registry,
                Gauge::new(
                    "log_lag_seconds",
                    "The age of the oldest commit in the log that is not confirmed; 0 if another relay reads it",
                )?,
            )?,
            left: gauge(
                "log_left_bytes",
                "What can be written before the slot may be lost; 0 if another relay reads it",
            )?,
            keep: gauge("log_keep_bytes", "The server's max_slot_wal_keep_size; 0 if another relay reads the log")?,
            leads: gauge("log_leads", "1 while this relay reads the log")?,
            open: gauge("log_open", "1 while this relay reads the log and events are emitted into it")?,
            table_missing: gauge(
                "log_table_missing",
                "1 while this relay reads the log and rows of the outbox table are not in it",
            )?,
            log,
        })
    }

    /// Takes over the current values.
    pub(super) fn look(&self) {
        let metrics = self.log.log_metrics();
        let counters = [
            (&self.delivered, metrics.delivered),
            (&self.spilled, metrics.spilled),
            (&self.forged, metrics.forged),
            (&self.unreadable, metrics.unreadable),
        ];
        for (counter, value) in counters {
            counter.inc_by(value.saturating_sub(counter.get()));
        }
        let bytes = |bytes: Option<u64>| i64::try_from(bytes.unwrap_or_default()).unwrap_or(i64::MAX);
        self.lag_bytes.set(bytes(metrics.lag_bytes));
        self.lag.set(metrics.lag.unwrap_or_default().as_secs_f64());
        self.left.set(bytes(metrics.left_bytes));
        self.keep.set(bytes(metrics.keep_bytes));
        self.leads.set(metrics.leads.into());
        // Before the first heartbeat nothing is known, and the gate is not open.
        let is_known = metrics.lag_bytes.is_some();
        self.open.set((metrics.leads && is_known && metrics.closed.is_none()).into());
        self.table_missing.set(metrics.table_problem.is_some().into());
    }
}
