//! `[log]`: the format of the log. It is read before all other settings, so that these can already be logged.

use std::path::Path;

use pillarbox_sinks::config::Section;

use super::environment::Environment;

pub(super) const FORMATS: [(&str, LogFormat); 2] = [("text", LogFormat::Text), ("json", LogFormat::Json)];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum LogFormat {
    #[default]
    Text,
    Json,
}

pub(super) fn lower(mut section: Section<'_>) -> LogFormat {
    let format = section.choose("format", &FORMATS).unwrap_or_default();
    section.finish();
    format
}

impl LogFormat {
    /// Reads the format if possible. Errors are reported later, with the whole configuration.
    pub(crate) fn glance(file: &Path, environment: &Environment) -> Self {
        let written = || {
            let table: toml::Table = std::fs::read_to_string(file).ok()?.parse().ok()?;
            Some(table.get("log")?.get("format")?.as_str()?.to_owned())
        };
        let said = environment.get("PILLARBOX_LOG_FORMAT").map(str::to_owned).or_else(written);
        FORMATS
            .iter()
            .find(|(name, _)| Some(*name) == said.as_deref())
            .map_or_else(Self::default, |(_, format)| *format)
    }
}
