//! The kinds of destinations: each kind reads its own keys, shows them, and builds its sink. A new kind is a type that
//! implements [`Kind`] and [`Target`]; [`Registry::with`] adds it, also from another crate.
//!
//! ```
//! use pillarbox_sinks::Registry;
//! # use std::{io, path::Path};
//! # struct Process;
//! # impl pillarbox_sinks::config::Resolver for Process {
//! #     fn variable(&self, _: &str) -> Option<String> { None }
//! #     fn read(&self, _: &Path) -> io::Result<Vec<u8>> { Err(io::ErrorKind::NotFound.into()) }
//! # }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let table = "[runner]\nkind = \"discard\"\ntimeout = \"5s\"".parse()?;
//! let relay = pillarbox::RelaySettings::default();
//! for destination in Registry::standard().destinations(table, &relay, &Process)? {
//!     let destination: pillarbox::Destination = destination.build(&Process)?;
//!     // builder = builder.destination(destination);
//! }
//! # Ok(())
//! # }
//! ```

mod kind;
mod settings;

use std::fmt;
use std::sync::Arc;

use pillarbox::RelaySettings;
use toml::Table;

pub use self::kind::{Build, EventParts, Implied, KeyKind, Kind, ShownKey, ShownRequest, SigningEntry, Target};
pub use self::settings::DestinationSettings;
use crate::config::{ConfigError, Report, Resolver, Section};
use crate::discard;

/// The kinds of this crate, each a feature.
const FEATURES: [&str; 8] = ["amqp", "celery", "http", "kafka", "nats", "redis", "sns", "sqs"];

/// The kinds of destinations that a configuration can name.
#[derive(Clone)]
pub struct Registry {
    kinds: Vec<Arc<dyn Kind>>,
}

impl Registry {
    /// Returns the kinds of this crate whose features are enabled.
    #[must_use]
    pub fn standard() -> Self {
        let kinds: [Arc<dyn Kind>; _] = [
            #[cfg(feature = "http")]
            Arc::new(crate::http::Http),
            #[cfg(feature = "celery")]
            Arc::new(crate::celery::Celery),
            #[cfg(feature = "redis")]
            Arc::new(crate::redis::Redis),
            #[cfg(feature = "sns")]
            Arc::new(crate::sns::Sns),
            #[cfg(feature = "sqs")]
            Arc::new(crate::sqs::Sqs),
            #[cfg(feature = "kafka")]
            Arc::new(crate::kafka::Kafka),
            #[cfg(feature = "nats")]
            Arc::new(crate::nats::Nats),
            #[cfg(feature = "amqp")]
            Arc::new(crate::amqp::Amqp),
            Arc::new(discard::Discard),
        ];
        Self { kinds: kinds.into() }
    }

    /// Adds a kind. It replaces a kind of the same name.
    #[must_use]
    pub fn with(mut self, kind: impl Kind) -> Self {
        self.kinds.retain(|other| other.name() != kind.name());
        self.kinds.push(Arc::new(kind));
        self
    }

    /// Reads the tables of `[destinations]`.
    ///
    /// # Errors
    /// Returns all problems at once.
    pub fn destinations(
        &self,
        table: Table,
        relay: &RelaySettings,
        resolver: &dyn Resolver,
    ) -> Result<Vec<DestinationSettings>, ConfigError> {
        let report = Report::default();
        let destinations = self.read(Section::new("destinations", table, &report), relay, resolver);
        report.into_result()?;
        Ok(destinations)
    }

    /// As [`Registry::destinations`], for an application whose file has more than destinations. Problems go to the
    /// section's report.
    pub fn read<'a>(
        &self,
        mut section: Section<'a>,
        relay: &RelaySettings,
        resolver: &'a dyn Resolver,
    ) -> Vec<DestinationSettings> {
        let mut named = section.named_sections();
        if named.is_empty() {
            named.extend(self.kinds.iter().filter_map(|kind| implied(kind.as_ref(), &section, resolver)));
        }
        named.into_iter().map(|(name, keys)| settings::read(self, name, keys, relay, resolver)).collect()
    }

    /// Returns the names of the kinds that send something, quoted and joined: `"http" or "celery"`.
    #[must_use]
    pub fn sending(&self) -> String {
        let names: Vec<String> = self.sending_kinds().map(|kind| format!("{:?}", kind.name())).collect();
        match names.split_last() {
            Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
            Some((last, _)) => last.clone(),
            None => String::new(),
        }
    }

    fn sending_kinds(&self) -> impl Iterator<Item = &Arc<dyn Kind>> {
        self.kinds.iter().filter(|kind| !kind.is_dry_run())
    }

    /// Takes `kind = "…"`. Reports a missing or unknown kind.
    fn choose(&self, section: &mut Section<'_>) -> Option<&dyn Kind> {
        if !section.has("kind") {
            let sending = self.sending();
            let dry_run: Vec<_> = self.kinds.iter().filter(|kind| kind.is_dry_run()).collect();
            let dry_run: Vec<String> = dry_run.iter().map(|kind| format!("{:?} for a dry run", kind.name())).collect();
            let choices = [sending].into_iter().chain(dry_run).filter(|choice| !choice.is_empty());
            section.problem("kind", format_args!("is missing; write {}", choices.collect::<Vec<_>>().join(", or ")));
        }
        if let Some(feature) = section.text("kind").and_then(|name| self.left_out(name)) {
            let needs = if feature == "kafka" { ", after `apt install make libssl-dev` or the like" } else { "" };
            let advice = format_args!(
                "is {feature:?}, which this program was built without; build it with --features {feature}{needs}"
            );
            section.problem("kind", advice);
            section.forget();
            return None;
        }
        let choices: Vec<_> = self.kinds.iter().map(|kind| (kind.name(), kind.as_ref())).collect();
        section.choose("kind", &choices)
    }

    /// Returns the feature of a kind that this crate has, and that was not enabled.
    fn left_out(&self, name: &str) -> Option<&'static str> {
        let is_known = self.kinds.iter().any(|kind| kind.name() == name);
        FEATURES.into_iter().find(|feature| *feature == name && !is_known)
    }

    /// Reads the keys of the chosen kind. A dry run takes the keys of all kinds. If the kind is wrong, its keys are not
    /// reported as unknown.
    fn read_target(&self, section: &mut Section<'_>, kind: Option<&dyn Kind>) -> Arc<dyn Target> {
        if kind.is_none_or(Kind::is_dry_run) {
            let readers: Vec<_> =
                self.sending_kinds().map(|kind| move |keys: &mut Section<'_>| drop(kind.read(keys))).collect();
            section.take_for_any(readers.iter().map(|reader| reader as &dyn Fn(&mut Section<'_>)));
        }
        kind.unwrap_or(&discard::Discard).read(section)
    }
}

/// Returns the destination that an environment variable alone configures.
fn implied<'a>(kind: &dyn Kind, section: &Section<'a>, resolver: &dyn Resolver) -> Option<(String, Section<'a>)> {
    let Implied { variable, key } = kind.implied()?;
    resolver.variable(variable)?;
    let text = |text: &str| toml::Value::String(text.to_owned());
    let keys = [("kind".to_owned(), text(kind.name())), (key.to_owned(), text(&format!("env:{variable}")))];
    Some((kind.name().to_owned(), section.made(kind.name(), Table::from_iter(keys))))
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.kinds.iter().map(|kind| kind.name())).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;

    impl Resolver for Nothing {
        fn variable(&self, _: &str) -> Option<String> {
            None
        }

        fn read(&self, _: &std::path::Path) -> std::io::Result<Vec<u8>> {
            Err(std::io::ErrorKind::NotFound.into())
        }
    }

    #[test]
    fn a_kind_whose_feature_is_not_enabled_is_refused_with_how_to_enable_it() {
        let registry = Registry { kinds: vec![Arc::new(discard::Discard)] };
        let table = "[a]\nkind = \"kafka\"\nbrokers = \"kafka:9092\"\ntopic = \"orders\"".parse().unwrap();
        let problems = registry.destinations(table, &RelaySettings::default(), &Nothing).unwrap_err().to_string();
        assert_eq!(
            problems,
            "destinations.a.kind is \"kafka\", which this program was built without; build it with --features kafka, \
             after `apt install make libssl-dev` or the like"
        );
    }
}
