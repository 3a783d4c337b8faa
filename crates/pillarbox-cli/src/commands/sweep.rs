//! `pillarbox sweep`: one pass of the relay, for schedulers and for people who want to see it happen.

use clap::Args;

use super::Session;
use super::relay::build;
use crate::output::count;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Pass after pass, until nothing is due
    #[arg(long)]
    all: bool,
}

pub(crate) async fn run(arguments: &Arguments, session: &Session) -> anyhow::Result<()> {
    let source = session.source().await?;
    let relay = build(session, &source)?.build()?;
    let pass = if arguments.all { relay.drain().await? } else { relay.run_once().await? };
    let text = || format!("processed {}, {} remaining", count(pass.processed, "event"), pass.remaining);
    Ok(session.output.answer(&pass, text)?)
}
