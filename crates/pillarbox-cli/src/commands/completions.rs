//! `pillarbox completions`: a script that completes commands, flags and names of destinations in a shell. The script asks the
//! program itself, which then reads the configuration.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::StyledStr;
use clap::{Args, CommandFactory};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::Shells;
use clap_complete::{CompleteEnv, Shell};
use serde_json::json;

use crate::cli::Cli;
use crate::config::{Environment, Settings};
use crate::output::Output;

const PROGRAM: &str = "pillarbox";
/// The variable with which the script asks the program. It names the shell.
const VARIABLE: &str = "PILLARBOX_COMPLETE";

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// For which shell
    ///
    /// bash: pillarbox completions bash > ~/.local/share/bash-completion/completions/pillarbox
    /// zsh: pillarbox completions zsh > "${fpath[1]}/_pillarbox"
    /// fish: pillarbox completions fish > ~/.config/fish/completions/pillarbox.fish
    #[arg(verbatim_doc_comment)]
    shell: Shell,
}

pub(crate) fn run(arguments: &Arguments, output: Output) -> anyhow::Result<()> {
    let name = arguments.shell.to_string();
    let shells = Shells::builtins();
    let shell = shells.completer(&name).ok_or_else(|| anyhow::anyhow!("completions for {name} are not supported"))?;
    let mut script = Vec::new();
    shell.write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script)?;
    let script = String::from_utf8(script)?;
    Ok(output.answer(&json!({ "shell": name, "script": script }), || script)?)
}

/// Completes a command line if a script asks for it. Returns the exit code then.
pub(crate) fn complete() -> Option<ExitCode> {
    let directory = std::env::current_dir().ok();
    let asked = CompleteEnv::with_factory(Cli::command).var(VARIABLE).bin(PROGRAM).completer(PROGRAM);
    match asked.try_complete(std::env::args_os(), directory.as_deref()) {
        Ok(false) => None,
        Ok(true) => Some(ExitCode::SUCCESS),
        // A shell has no place for the reason.
        Err(_) => Some(ExitCode::FAILURE),
    }
}

/// Completes a value with the names of the configured destinations.
pub(crate) fn destinations() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let file = config(std::env::args_os().filter_map(|argument| argument.into_string().ok()));
        candidates(file.as_deref(), &Environment::of_process())
    })
}

/// Returns the destinations of a configuration; none if it cannot be read.
fn candidates(file: Option<&Path>, environment: &Environment) -> Vec<CompletionCandidate> {
    let Ok(settings) = Settings::load(file, environment) else { return Vec::new() };
    let plain = settings.destinations.iter().filter(|one| !one.name.contains(char::is_control));
    plain.map(|one| CompletionCandidate::new(&one.name).help(Some(StyledStr::from(one.kind())))).collect()
}

/// Returns the `--config` of the command line that is being completed.
fn config(mut words: impl Iterator<Item = String>) -> Option<PathBuf> {
    loop {
        let word = words.next()?;
        if word == "--config" {
            return words.next().map(PathBuf::from);
        }
        if let Some(file) = word.strip_prefix("--config=") {
            return Some(PathBuf::from(file));
        }
    }
}
