//! `[[schemas]]`: the JSON Schemas of payloads. The first match decides. The files are read by the commands that need them: an
//! application that only emits needs none.

use std::path::PathBuf;

use pillarbox::Pattern;
use pillarbox::schema::Schemas;
use pillarbox_sinks::config::Section;
use serde_json::Value;

use super::{ConfigError, Settings};

/// A schema, as the configuration names it.
#[derive(Debug, Clone)]
pub(crate) struct SchemaSettings {
    pub(crate) events: Pattern,
    pub(crate) file: PathBuf,
}

pub(super) fn lower(sections: Vec<Section<'_>>) -> Vec<SchemaSettings> {
    sections.into_iter().map(lower_one).collect()
}

fn lower_one(mut section: Section<'_>) -> SchemaSettings {
    let file: Option<String> =
        section.require("file", "write the path of a file with JSON Schema, like \"schemas/order.json\"");
    let events: Option<String> = section.take("events");
    let schema = SchemaSettings {
        events: Pattern::new(events.unwrap_or_else(|| "*".to_owned())),
        file: PathBuf::from(file.unwrap_or_default()),
    };
    section.finish();
    schema
}

impl SchemaSettings {
    /// Reads the file.
    pub(crate) fn read(&self) -> Result<Value, ConfigError> {
        let file = self.file.display();
        let text = std::fs::read_to_string(&self.file).map_err(|error| {
            ConfigError::new(format!("schema {file}: the file cannot be read: {error}; check schemas.file"))
        })?;
        serde_json::from_str(&text)
            .map_err(|error| ConfigError::new(format!("schema {file}: the file is not JSON: {error}")))
    }
}

impl Settings {
    /// Reads and compiles the schemas.
    pub(crate) fn read_schemas(&self) -> Result<Schemas, ConfigError> {
        self.schemas.iter().try_fold(Schemas::new(), |schemas, one| {
            let name = one.file.display().to_string();
            schemas.with(one.events.clone(), name, &one.read()?).map_err(|error| ConfigError::new(error.to_string()))
        })
    }
}
