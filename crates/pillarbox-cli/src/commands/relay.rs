//! `pillarbox relay`: delivers events until it is told to stop.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use pillarbox::{Observer, Relay, RelayBuilder, Routes};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use super::Session;
use super::check_config::remarks;
use crate::observers::liveness::Liveness;
use crate::observers::report::{Report, Writing};
use crate::observers::statsd::{Sending, Statsd};
use crate::store::Source;

/// Also those of `celery-relay`, which has more.
#[derive(Debug, Args)]
#[group(skip)]
pub(crate) struct Arguments {
    /// Write a line of JSON to standard output for each event that was sent, failed or was given up
    ///
    /// {"outcome": "sent" | "failed" | "dead_lettered", "id", "event_type", "aggregate_type", "aggregate_id",
    /// "destination", "attempts", "error"}. "failed" is only what will be tried again, and outages are not told of. For
    /// programs that run the relay as their child: a reader that is slow or gone does not hold the relay up; what it misses
    /// is told as {"outcome": "dropped", "count"}. After a stop the rest is written before the program ends.
    #[arg(long, conflicts_with = "json")]
    report: bool,
    /// Touch this file whenever the claim loop has turned, about once a second
    #[arg(long, value_name = "FILE")]
    liveness_file: Option<PathBuf>,
}

pub(crate) async fn run(arguments: &Arguments, session: &Session) -> anyhow::Result<()> {
    let stop = stop_signal()?;
    let source = Arc::new(session.source().await?);
    let (builder, company) = Company::join(build(session, &source)?, arguments, session, &source)?;
    let relay = builder.build()?;
    for remark in remarks(&session.settings) {
        tracing::warn!("{remark}");
    }
    tracing::info!(
        database = session.settings.database.shown(),
        destinations = session.settings.destinations.len(),
        routes = session.settings.routes.len(),
        "the relay starts"
    );
    let ran = relay.run(stop).await;
    company.finish().await;
    ran?;
    tracing::info!("the relay has stopped");
    if session.output.is_json() {
        session.output.answer(&json!({ "stopped": true }), String::new)?;
    }
    Ok(())
}

/// The relay that the configuration describes.
pub(super) fn build(session: &Session, source: &Source) -> anyhow::Result<RelayBuilder> {
    let settings = &session.settings;
    settings.check_source()?;
    let mut builder = Relay::builder(source.store()).settings(settings.relay.clone());
    for destination in &settings.destinations {
        builder = builder.destination(destination.build(&session.environment)?);
    }
    for route in &settings.routes {
        builder = builder.route(route.clone());
    }
    Ok(builder)
}

/// What runs beside the relay and ends after it.
#[derive(Default)]
struct Company {
    writing: Option<Writing>,
    sending: Option<Sending>,
}

impl Company {
    /// Those who were asked for hear what the relay does.
    fn join(
        mut builder: RelayBuilder,
        arguments: &Arguments,
        session: &Session,
        source: &Arc<Source>,
    ) -> anyhow::Result<(RelayBuilder, Self)> {
        let settings = &session.settings;
        let mut company = Self::default();
        if let Some(path) = arguments.liveness_file.as_ref().or(settings.liveness_file.as_ref()) {
            builder = builder.observer(Arc::new(Liveness::new(path)?));
        }
        if arguments.report {
            let (report, writing) = Report::start(Routes::new(settings.routes.clone()))?;
            builder = builder.observer(Arc::new(report));
            company.writing = Some(writing);
        }
        if let Some(server) = &settings.metrics.statsd {
            let (statsd, sending) = Statsd::start(server, &settings.metrics, Arc::clone(source));
            builder = builder.observer(statsd as Arc<dyn Observer>);
            company.sending = Some(sending);
        }
        Ok((builder, company))
    }

    /// The relay has stopped.
    async fn finish(self) {
        if let Some(sending) = self.sending {
            sending.finish().await;
        }
        if let Some(writing) = self.writing {
            writing.finish().await;
        }
    }
}

/// Ready at the first SIGTERM or SIGINT. A second one ends the program at once.
pub(crate) fn stop_signal() -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM cannot be listened for")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT cannot be listened for")?;
    Ok(async move {
        let (name, code) = tokio::select! {
            _ = terminate.recv() => ("SIGTERM", 143),
            _ = interrupt.recv() => ("SIGINT", 130),
        };
        tracing::info!("{name}: stopping; once more ends it at once");
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            std::process::exit(code);
        });
    })
}
