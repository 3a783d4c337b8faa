//! `pillarbox completions`: a script that completes the program's commands and flags in a shell.

use clap::{Args, CommandFactory};
use clap_complete::Shell;
use serde_json::json;

use crate::cli::Cli;
use crate::output::Output;

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
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "pillarbox", &mut script);
    let script = String::from_utf8(script)?;
    let answer = json!({ "shell": arguments.shell.to_string(), "script": script });
    Ok(output.answer(&answer, || script)?)
}
