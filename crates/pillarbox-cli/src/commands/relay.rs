//! `pillarbox relay`: delivers events until SIGTERM or SIGINT.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use pillarbox::{Observer, Relay, RelayBuilder, RelaySettings, Routes};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use super::Session;
use super::check_config::remarks;
use crate::admin::{self, Insistence};
use crate::config::admin::Listen;
use crate::config::destination;
use crate::observers::depth::Counting;
use crate::observers::liveness::Liveness;
use crate::observers::prometheus::Prometheus;
use crate::observers::report::{Report, Writing};
use crate::observers::statsd::{Sending, Statsd};
#[cfg(target_os = "linux")]
use crate::observers::systemd::Systemd;
use crate::otlp::Otlp;
use crate::store::{Missing, Opened, Source};
use crate::web::health::Health;
use crate::web::{self, Serving};

/// The flags of `relay`, which `celery-relay` has too.
#[derive(Debug, Default, Args)]
#[group(skip)]
pub(crate) struct Arguments {
    /// Write a line of JSON to standard output for each event that is sent, fails or becomes a dead letter
    ///
    /// {"outcome": "sent" | "failed" | "dead_lettered", "id", "event_type", "aggregate_type", "aggregate_id",
    /// "destination", "attempts", "error"}. "failed" means that the event will be tried again. Outages are not reported.
    /// For programs that run the relay as a child process: a reader that is slow or gone does not block the relay; lines
    /// that it misses are counted as {"outcome": "dropped", "count"}. After a stop, the remaining lines are written before
    /// the program exits.
    #[arg(long, conflicts_with = "json")]
    report: bool,
    /// Touch this file whenever the claim loop completes a claim, about once a second
    #[arg(long, value_name = "FILE")]
    liveness_file: Option<PathBuf>,
}

/// The shortest time after which the loop counts as hung: a destination may be slow.
const LEAST_PATIENCE: Duration = Duration::from_secs(60);

pub(crate) async fn run(arguments: &Arguments, session: &Session) -> anyhow::Result<()> {
    deliver(arguments, session, None, Insistence::Beside).await
}

/// Delivers until SIGTERM or SIGINT, with an observer besides the configured ones.
pub(super) async fn deliver(
    arguments: &Arguments,
    session: &Session,
    observer: Option<Arc<dyn Observer>>,
    pages: Insistence,
) -> anyhow::Result<()> {
    let stop = stop_signal(Some(session.log_name("relay_shutdown")))?;
    let source = Arc::new(session.source(Missing::Create(session.output)).await?);
    let builder = observer.into_iter().fold(build(session, &source)?, RelayBuilder::observer);
    let (builder, mut company) = Company::join(builder, arguments, session, &source)?;
    let relay = builder.build()?;
    company.attend(&relay, session, &source, pages).await?;
    for remark in remarks(session) {
        tracing::warn!("{remark}");
    }
    tracing::info!(
        event = session.log_name("relay_started"),
        database = session.settings.database.shown(),
        destinations = session.settings.destinations.len(),
        routes = session.settings.routes.len(),
        "relay started"
    );
    let ran = relay.run(stop).await;
    company.finish().await;
    ran?;
    tracing::info!("relay stopped");
    if session.output.is_json() {
        session.output.answer(&json!({ "stopped": true }), String::new)?;
    }
    Ok(())
}

/// Returns the relay that the configuration describes.
pub(super) fn build(session: &Session, source: &Source) -> anyhow::Result<RelayBuilder> {
    let settings = &session.settings;
    settings.check_source()?;
    let configuration = Some(settings.digest());
    let mut builder =
        Relay::builder(source.store()).settings(RelaySettings { configuration, ..settings.relay.clone() });
    for destination in &settings.destinations {
        builder = builder.destination(destination::build(destination, &session.environment, &settings.admin.mask)?);
    }
    for route in &settings.routes {
        builder = builder.route(route.clone());
    }
    let schemas = settings.read_schemas()?;
    if !schemas.is_empty() {
        builder = builder.check(Arc::new(schemas));
    }
    Ok(builder)
}

/// The tasks that run beside the relay and end after it.
#[derive(Default)]
struct Company {
    otlp: Option<Otlp>,
    writing: Option<Writing>,
    counting: Option<Counting>,
    sending: Option<Sending>,
    shown: Option<(Arc<Health>, Arc<Prometheus>)>,
    serving: Option<Serving>,
    admin: Option<Serving>,
}

impl Company {
    /// Adds the configured observers to the relay.
    fn join(
        mut builder: RelayBuilder,
        arguments: &Arguments,
        session: &Session,
        source: &Arc<Source>,
    ) -> anyhow::Result<(RelayBuilder, Self)> {
        let settings = &session.settings;
        let mut company = Self::default();
        if let Some(otlp) = Otlp::start(&settings.tracing, settings.source.kind, &session.environment)? {
            builder = otlp.follow(builder);
            company.otlp = Some(otlp);
        }
        if let Some(path) = arguments.liveness_file.as_ref().or(settings.liveness_file.as_ref()) {
            builder = builder.observer(Arc::new(Liveness::new(path)?));
        }
        #[cfg(target_os = "linux")]
        if let Some(systemd) = Systemd::of(&session.environment).context("sending to NOTIFY_SOCKET failed")? {
            builder = builder.observer(Arc::new(systemd));
        }
        if arguments.report {
            let (report, writing) = Report::start(Routes::new(settings.routes.clone()))?;
            builder = builder.observer(Arc::new(report));
            company.writing = Some(writing);
        }
        let metrics = &settings.metrics;
        if metrics.statsd.is_none() && metrics.listen.is_none() {
            return Ok((builder, company));
        }
        let counting = Counting::start(Arc::clone(source), metrics.every);
        if let Some(server) = &metrics.statsd {
            let (statsd, sending) = Statsd::start(server, metrics, counting.last());
            builder = builder.observer(statsd as Arc<dyn Observer>);
            company.sending = Some(sending);
        }
        if metrics.listen.is_some() {
            let health = Arc::new(Health::new(Arc::clone(source), settings.relay.lease.max(LEAST_PATIENCE)));
            let prometheus = Arc::new(Prometheus::new(counting.last())?);
            if let Source::Log(_, log) = &**source {
                prometheus.watch_log(log)?;
            }
            builder = builder.observer(Arc::clone(&health) as _).observer(Arc::clone(&prometheus) as _);
            company.shown = Some((health, prometheus));
        }
        company.counting = Some(counting);
        Ok((builder, company))
    }

    /// Serves the metrics and the admin, if they are configured.
    async fn attend(
        &mut self,
        relay: &Relay,
        session: &Session,
        source: &Source,
        pages: Insistence,
    ) -> anyhow::Result<()> {
        if let (Some(listen), Some((health, prometheus))) = (session.settings.metrics.listen, self.shown.take()) {
            prometheus.watch(relay.monitor());
            self.serving = Some(web::serve(listen, health, prometheus).await?);
        }
        let settings = &session.settings.admin;
        if !matches!(source, Source::Adopted(_)) && settings.listen != Listen::Off {
            let people = Opened::beside(&session.settings.database).await?.people();
            let desk = admin::desk_that_tests(people, &session.settings, &session.environment);
            self.admin = admin::serve(settings, &session.environment, pages, desk).await?;
        }
        Ok(())
    }

    /// Finishes after the relay has stopped.
    async fn finish(self) {
        if let Some(otlp) = self.otlp {
            otlp.finish().await;
        }
        if let Some(sending) = self.sending {
            sending.finish().await;
        }
        if let Some(writing) = self.writing {
            writing.finish().await;
        }
    }
}

/// Returns a future that completes at the first SIGTERM or SIGINT, which is logged as `event`. A second signal exits at
/// once.
pub(crate) fn stop_signal(event: Option<String>) -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate()).context("installing the SIGTERM handler failed")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("installing the SIGINT handler failed")?;
    Ok(async move {
        let (name, code) = tokio::select! {
            _ = terminate.recv() => ("SIGTERM", 143),
            _ = interrupt.recv() => ("SIGINT", 130),
        };
        tracing::info!(event, "{name}: stopping; a second signal exits at once");
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            std::process::exit(code);
        });
    })
}
