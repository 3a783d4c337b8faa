//! `pillarbox relay`: delivers events until it is told to stop.

use anyhow::Context;
use pillarbox::Relay;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use super::Session;
use super::check_config::remarks;
use crate::store::Opened;

pub(crate) async fn run(session: &Session) -> anyhow::Result<()> {
    let stop = stop_signal()?;
    let opened = session.open().await?;
    let relay = build(session, &opened)?;
    for remark in remarks(&session.settings) {
        tracing::warn!("{remark}");
    }
    tracing::info!(
        database = session.settings.database.shown(),
        destinations = session.settings.destinations.len(),
        routes = session.settings.routes.len(),
        "the relay starts"
    );
    relay.run(stop).await?;
    tracing::info!("the relay has stopped");
    if session.output.is_json() {
        session.output.answer(&json!({ "stopped": true }), String::new)?;
    }
    Ok(())
}

/// The relay that the configuration describes.
pub(super) fn build(session: &Session, opened: &Opened) -> anyhow::Result<Relay> {
    let settings = &session.settings;
    let mut builder = Relay::builder(opened.store()).settings(settings.relay.clone());
    for destination in &settings.destinations {
        builder = builder.destination(destination.build(&session.environment)?);
    }
    for route in &settings.routes {
        builder = builder.route(route.clone());
    }
    Ok(builder.build()?)
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
