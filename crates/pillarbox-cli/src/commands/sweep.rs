//! `pillarbox sweep`: one pass of the relay, for schedulers and for trying it out.

use clap::Args;

use super::Session;
use super::check_config::discarded;
use super::relay::build;
use crate::otlp::Otlp;
use crate::output::count;
use crate::store::Missing;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Repeat until nothing is due
    #[arg(long)]
    all: bool,
}

pub(crate) async fn run(arguments: &Arguments, session: &Session) -> anyhow::Result<()> {
    let source = session.source(Missing::Refuse).await?;
    let settings = &session.settings;
    for warning in discarded(settings) {
        session.output.note(&format!("note: {warning}"));
    }
    let otlp = Otlp::start(&settings.tracing, settings.source.kind, &session.environment)?;
    let builder = build(session, &source)?;
    let relay = otlp.iter().fold(builder, |builder, otlp| otlp.follow(builder)).build()?;
    let swept = if arguments.all { relay.drain().await } else { relay.run_once().await };
    if let Some(otlp) = otlp {
        otlp.finish().await;
    }
    let pass = swept?;
    let text = || format!("processed {}, {} remaining", count(pass.processed, "event"), pass.remaining);
    Ok(session.output.answer(&pass, text)?)
}
