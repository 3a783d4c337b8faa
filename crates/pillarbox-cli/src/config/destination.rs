//! `[destinations.NAME]`: the receivers of events. The registry has the kinds and their keys.

use pillarbox::Destination;
use pillarbox_admin::{Discreet, Mask};
use pillarbox_sinks::config::ConfigError;
use pillarbox_sinks::{DestinationSettings, Registry};

use super::environment::Environment;

/// Returns the program's kinds of destinations.
pub(crate) fn registry() -> Registry {
    Registry::standard()
}

/// Looks up the secrets and builds a destination of the relay. Its errors do not quote masked values.
pub(crate) fn build(
    destination: &DestinationSettings,
    environment: &Environment,
    mask: &Mask,
) -> Result<Destination, ConfigError> {
    Ok(destination.destination(Discreet::around(destination.sink(environment)?, mask)))
}
