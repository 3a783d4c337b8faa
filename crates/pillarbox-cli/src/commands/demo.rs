//! `pillarbox demo`: shows how Pillarbox works. It needs no setup and leaves nothing behind, unless a person names a database.

use std::process::ExitCode;

use clap::Args;

use pillarbox_sinks::config::SecretRef;

use super::relay::stop_signal;
use crate::config::database::Database;
use crate::config::{ConfigError, Environment};

use crate::demo::{self, Play, Show, Verdict};
use crate::output::{Output, count};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// How many orders customers place
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    orders: u32,
    /// The seed that decides which orders are rolled back and which requests fail; random by default
    #[arg(long)]
    seed: Option<u64>,
    /// A database with an empty outbox or none, instead of a temporary SQLite file: a URL, env:NAME or file:PATH
    #[arg(long, value_name = "URL")]
    database: Option<String>,
}

impl Arguments {
    /// Returns the named database.
    fn database(&self) -> Result<Option<Database>, ConfigError> {
        let Some(given) = &self.database else { return Ok(None) };
        let url = SecretRef::parse(given).resolve(&Environment::of_process());
        let database = url.and_then(|url| Database::parse(url.expose()));
        database.map(Some).map_err(|problem| ConfigError::new(format!("--database {problem}")))
    }
}

pub(crate) async fn run(arguments: &Arguments, output: Output) -> anyhow::Result<ExitCode> {
    let seed = arguments.seed.unwrap_or_else(|| rand::random::<u32>().into());
    let show = match (output.is_json(), output.is_terminal()) {
        (true, _) => Show::Nothing,
        (false, true) => Show::Live { colours: std::env::var_os("NO_COLOR").is_none() },
        (false, false) => Show::Lines,
    };
    let (play, database) = (Play { orders: arguments.orders, seed }, arguments.database()?);
    let ended = demo::run(play, show, database.as_ref(), stop_signal(None)?).await?;
    if let Some(left) = ended.left {
        output.note(&left);
    }
    match ended.verdict {
        None => {
            output.error("the demo was stopped before its end, so nothing was checked");
            Ok(ExitCode::FAILURE)
        }
        Some(verdict) => {
            output.answer(&verdict, || render(&verdict))?;
            Ok(if verdict.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
    }
}

fn render(verdict: &Verdict) -> String {
    let mut text = format!(
        "  {} committed, {} rolled back\n  {}: {} answered 500, {} answered 503; {} tried more than once\n",
        count(verdict.committed as u64, "order"),
        verdict.rolled_back,
        count(verdict.requests, "request"),
        verdict.answered_500,
        verdict.answered_503,
        count(verdict.retried as u64, "event"),
    );
    if verdict.duplicates > 0 {
        let twice = count(verdict.duplicates as u64, "event");
        text.push_str(&format!(
            "  {twice} arrived twice, because a response was lost; the receiver recognised them by their id\n"
        ));
    }
    if !verdict.ok {
        let problems: String = verdict.problems.iter().map(|problem| format!("  {problem}\n")).collect();
        return format!("{text}\nFAILED (seed {}):\n{problems}", verdict.seed);
    }
    format!(
        "{text}\nPASSED in {:.1} s (seed {}): all {} committed events arrived, none of the {} rolled-back ones did.\n{NEXT}",
        verdict.seconds, verdict.seed, verdict.arrived, verdict.rolled_back
    )
}

const NEXT: &str = "
Next, in a directory of your own:
  pillarbox emit Order 1 order.placed '{\"total\": \"19.90\"}'   creates an outbox in pillarbox.db
  pillarbox events list                                      lists its events
  pillarbox dev                                              delivers them to a receiver that prints them
  pillarbox check-config --default > pillarbox.toml          is the configuration of `pillarbox relay`
";
