//! `pillarbox man`: the manual page, made from the text of `--help`.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, CommandFactory};
use clap_mangen::Man;
use serde_json::json;

use crate::cli::Cli;
use crate::output::{Output, count};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Write a page for each command into this directory, instead of the program's own to standard output
    #[arg(long, value_name = "DIRECTORY")]
    dir: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, output: Output) -> anyhow::Result<()> {
    let Some(directory) = &arguments.dir else {
        let mut page = Vec::new();
        Man::new(Cli::command()).render(&mut page)?;
        let page = String::from_utf8(page)?;
        return Ok(output.answer(&json!({ "page": page }), || page)?);
    };
    let shown = directory.display();
    std::fs::create_dir_all(directory).with_context(|| format!("creating the directory {shown} failed"))?;
    clap_mangen::generate_to(Cli::command(), directory).with_context(|| format!("writing to {shown} failed"))?;
    let files = std::fs::read_dir(directory)?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut pages: Vec<String> = files.filter(|name| name.starts_with("pillarbox") && name.ends_with(".1")).collect();
    pages.sort();
    Ok(output.answer(&json!({ "directory": directory, "pages": pages }), || {
        format!("{} in {shown}; read them with: man -l {shown}/pillarbox.1", count(pages.len() as u64, "page"))
    })?)
}
