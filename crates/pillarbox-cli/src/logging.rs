//! Logs go to standard error, so that standard output has only the result.

use std::io::{IsTerminal, Write};
use std::path::Path;

use tracing::{Metadata, Subscriber};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{EnvFilter, Layer, layer::SubscriberExt, util::SubscriberInitExt};

use crate::cli::{Cli, Command};
use crate::config::{Environment, LogFormat, USUAL_FILE};
use crate::terminal::escaped_log;

/// The client of NATS logs each lost connection as an error. Our errors include its messages.
const TOO_TALKATIVE: [&str; 1] = ["async_nats"];

/// Starts the log. `RUST_LOG` sets the level; by default `info` for the commands that serve, and `warn` for the others.
pub(crate) fn start(cli: &Cli) {
    let usual = match cli.command {
        Command::Relay(_) | Command::CeleryRelay(_) | Command::Admin(_) => "info,opentelemetry=warn",
        // These commands show their errors themselves.
        Command::Demo(_) | Command::Top(_) => "off",
        _ => "warn",
    };
    let asked = std::env::var(EnvFilter::DEFAULT_ENV).unwrap_or_default();
    let filter = EnvFilter::try_new(&asked).ok().filter(|_| !asked.is_empty()).unwrap_or_else(|| EnvFilter::new(usual));
    // A filter that names a client is respected.
    let silent = TOO_TALKATIVE.iter().filter(|client| !asked.contains(**client));
    let silent = silent.filter_map(|client| format!("{client}=off").parse().ok());
    let filter = silent.fold(filter, EnvFilter::add_directive);
    let configured = || {
        let file = cli.config.as_deref().unwrap_or(Path::new(USUAL_FILE));
        LogFormat::glance(file, &Environment::of_process())
    };
    let format = cli.log_format.unwrap_or_else(configured);
    tracing_subscriber::registry().with(filter).with(lines(format).with_filter(filter_fn(is_news))).init();
}

fn lines<S: Subscriber + for<'a> LookupSpan<'a>>(format: LogFormat) -> Box<dyn Layer<S> + Send + Sync> {
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let lines = tracing_subscriber::fmt::layer();
    match format {
        LogFormat::Text => lines.with_writer(move || Escaping { colours }).with_ansi(colours).boxed(),
        LogFormat::Json => lines.with_writer(std::io::stderr).with_ansi(false).json().flatten_event(true).boxed(),
    }
}

/// Escapes lines of text on standard error. The formatter writes each line in one call.
struct Escaping {
    colours: bool,
}

impl Write for Escaping {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let text = escaped_log(&String::from_utf8_lossy(line), self.colours);
        std::io::stderr().lock().write_all(text.as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        std::io::stderr().lock().flush()
    }
}

/// Filters out OpenTelemetry's message about each failed export. Our own is logged once.
fn is_news(line: &Metadata<'_>) -> bool {
    line.name() != "BatchSpanProcessor.ExportError"
}
