//! `[destinations.NAME]`: what events are delivered to. The kinds and their keys are those of the registry.

use pillarbox::Destination;
use pillarbox_admin::{Discreet, Mask};
use pillarbox_sinks::config::ConfigError;
use pillarbox_sinks::{DestinationSettings, Registry};

use super::environment::Environment;

/// Returns the kinds of destinations that the program has.
pub(crate) fn registry() -> Registry {
    Registry::standard()
}

/// Looks up the secrets and builds what the relay sends to. Its errors do not quote what is masked.
pub(crate) fn build(
    destination: &DestinationSettings,
    environment: &Environment,
    mask: &Mask,
) -> Result<Destination, ConfigError> {
    Ok(destination.destination(Discreet::around(destination.sink(environment)?, mask)))
}
