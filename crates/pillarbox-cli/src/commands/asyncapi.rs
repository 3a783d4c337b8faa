//! `pillarbox asyncapi`: prints an AsyncAPI document of the events, their schemas and destinations.

use clap::Args;
use serde_json::Value;

use super::Session;
use crate::asyncapi::{About, document};
use crate::config::schemas::SchemaSettings;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The title of the document
    #[arg(long, default_value = "Events")]
    title: String,
    /// The version of the document
    #[arg(long, default_value = "1.0.0", value_name = "VERSION")]
    document_version: String,
}

pub(crate) fn run(arguments: &Arguments, session: &Session) -> anyhow::Result<()> {
    // Compiled, too: a document with broken schemas helps nobody.
    session.settings.read_schemas()?;
    let schemas: Result<Vec<Value>, _> = session.settings.schemas.iter().map(SchemaSettings::read).collect();
    let about = About { title: &arguments.title, version: &arguments.document_version };
    let document = document(&about, &session.settings, &schemas?);
    let text = serde_json::to_string_pretty(&document)?;
    Ok(session.output.answer(&document, || text)?)
}
