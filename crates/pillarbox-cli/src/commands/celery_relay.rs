//! `pillarbox celery-relay`: the relay on the tables of django-celery-outbox, in place of `manage.py celery_outbox_relay`,
//! with the same flags. They override the configuration, which is optional.

use std::time::Duration;

use clap::Args;

use super::relay;
use crate::config::Environment;
use crate::config::source::DJANGO_CELERY_OUTBOX;

const AFTER_HELP: &str = "\
It needs no configuration: PILLARBOX_DATABASE_URL is the PostgreSQL database of the Django project, and PILLARBOX_BROKER_URL the
broker (amqp://, amqps://, redis://, rediss://). Tasks without a queue go to the queue \"celery\". To declare queues, or for
other queues and routes, use the configuration: [destinations.celery]. Other relays may run on the same tables, including
django-celery-outbox's own.";

/// The flags of django-celery-outbox's relay under their names. Numbers are seconds, as there.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Tasks claimed at once; by default 500
    #[arg(long, value_name = "N")]
    batch_size: Option<u32>,
    /// The longest pause when nothing is due, 0 for the shortest possible; by default 0.05
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    idle_time: Option<Duration>,
    /// The wait after a task's first failure, doubled by each further one; by default 120
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    backoff_time: Option<Duration>,
    /// How often a task is tried before it becomes a dead letter; by default 5
    #[arg(long, value_name = "N")]
    max_retries: Option<u32>,
    /// Batches that are sent to the broker at once; by default 2
    #[arg(long, value_name = "N")]
    publish_concurrency: Option<u32>,
    /// How often waiting tasks are counted for the metrics; by default 5
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    queue_snapshot_refresh_seconds: Option<Duration>,
    /// The time after which a claimed task counts as abandoned by its relay; the same for all relays; by default 300
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    stale_timeout_seconds: Option<Duration>,
    /// The timeout for sending to the broker; by default 10
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    send_timeout: Option<Duration>,
    /// The time for tasks in flight to finish after SIGTERM; by default 30
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    shutdown_timeout: Option<Duration>,
    /// How long a task is delayed while the broker is down, which uses no retry; by default 30
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    broker_outage_cooldown: Option<Duration>,
    /// The longest wait after a failure; by default 3600
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    max_backoff: Option<Duration>,
    #[command(flatten)]
    pub(crate) relay: relay::Arguments,
}

/// The shortest pause of this relay. It replaces a pause of 0, which django-celery-outbox allows.
const SHORTEST_REST: Duration = Duration::from_millis(5);

fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| "write a number of seconds: 1 or 0.5".to_owned())?;
    Duration::try_from_secs_f64(number).map_err(|_| "write a number of seconds that is not negative".to_owned())
}

impl Arguments {
    /// Sets the flags in place of the variables that override the configuration.
    pub(crate) fn override_configuration(&self, environment: &mut Environment) {
        environment.flag("PILLARBOX_SOURCE_KIND", "celery-relay", DJANGO_CELERY_OUTBOX.to_owned());
        let numbers = [
            ("PILLARBOX_RELAY_BATCH_SIZE", "--batch-size", self.batch_size),
            ("PILLARBOX_RELAY_RETRY_MAX_ATTEMPTS", "--max-retries", self.max_retries),
            ("PILLARBOX_CELERY_CONCURRENCY", "--publish-concurrency", self.publish_concurrency),
        ];
        for (variable, flag, number) in numbers {
            if let Some(number) = number {
                environment.flag(variable, flag, number.to_string());
            }
        }
        let idle_time = self.idle_time.map(|time| time.max(SHORTEST_REST));
        let durations = [
            ("PILLARBOX_RELAY_POLL_INTERVAL", "--idle-time", idle_time),
            ("PILLARBOX_RELAY_RETRY_BASE", "--backoff-time", self.backoff_time),
            ("PILLARBOX_METRICS_EVERY", "--queue-snapshot-refresh-seconds", self.queue_snapshot_refresh_seconds),
            ("PILLARBOX_RELAY_LEASE", "--stale-timeout-seconds", self.stale_timeout_seconds),
            ("PILLARBOX_CELERY_TIMEOUT", "--send-timeout", self.send_timeout),
            ("PILLARBOX_RELAY_SHUTDOWN_TIMEOUT", "--shutdown-timeout", self.shutdown_timeout),
            ("PILLARBOX_SOURCE_COOLDOWN", "--broker-outage-cooldown", self.broker_outage_cooldown),
            ("PILLARBOX_RELAY_RETRY_CAP", "--max-backoff", self.max_backoff),
        ];
        for (variable, flag, duration) in durations {
            if let Some(duration) = duration {
                environment.flag(variable, flag, humantime::format_duration(duration).to_string());
            }
        }
    }
}
