//! placeholder
use std::process::ExitCode;
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}
pub(crate) async fn run(_arguments: &Arguments, _output: crate::output::Output) -> anyhow::Result<ExitCode> {
    Ok(ExitCode::SUCCESS)
}
