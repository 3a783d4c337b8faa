//! A destination of a kind that this crate does not know: read from TOML, shown, built, reached, and delivered to.

#![allow(clippy::unwrap_used)]

mod shelf;

use std::io;
use std::path::Path;
use std::sync::Arc;

use pillarbox::store::sqlite::SqliteStore;
use pillarbox::{Event, Relay, RelaySettings, Route, emit};
use pillarbox_sinks::config::Resolver;
use pillarbox_sinks::{DestinationSettings, Registry};

use crate::shelf::{Kept, Shelf};

const CONFIGURED: &str = "[cellar]\nkind = \"shelf\"\nroom = \"cellar\"\nkey = \"env:SHELF_KEY\"\ntimeout = \"5s\"\n";

/// One variable and no file.
struct Surroundings(Option<&'static str>);

impl Resolver for Surroundings {
    fn variable(&self, name: &str) -> Option<String> {
        self.0.filter(|_| name == "SHELF_KEY").map(str::to_owned)
    }

    fn read(&self, _path: &Path) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::NotFound.into())
    }
}

fn read(text: &str, kept: &Kept) -> Result<Vec<DestinationSettings>, String> {
    let registry = Registry::standard().with(Shelf { kept: kept.clone(), key: "hunter2".into() });
    let table = text.parse().unwrap();
    registry.destinations(table, &RelaySettings::default(), &Surroundings(None)).map_err(|error| error.to_string())
}

fn refusal(text: &str) -> String {
    read(text, &Kept::default()).unwrap_err()
}

#[tokio::test]
async fn events_are_delivered_to_a_kind_from_outside() {
    let kept = Kept::default();
    let destinations = read(CONFIGURED, &kept).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path().join("shop.db")).await.unwrap();
    store.migrate().await.unwrap();
    let mut tx = store.pool().begin().await.unwrap();
    for event_type in ["order.placed", "order.paid"] {
        emit(&mut tx, Event::new("Order", 42, event_type)).await.unwrap();
    }
    tx.commit().await.unwrap();
    let mut relay = Relay::builder(Arc::new(store)).route(Route::new("order.*", ["cellar"]));
    for destination in &destinations {
        relay = relay.destination(destination.build(&Surroundings(Some("hunter2"))).unwrap());
    }
    let pass = relay.build().unwrap().run_once().await.unwrap();
    assert_eq!((pass.processed, pass.remaining), (2, 0));
    assert_eq!(*kept.lock().unwrap(), ["order.placed", "order.paid"]);
}

#[tokio::test]
async fn its_keys_are_shown_without_its_secret_and_it_is_reached() {
    let written = CONFIGURED.replace("env:SHELF_KEY", "hunter2");
    for (text, shown) in [(CONFIGURED, "*** (env:SHELF_KEY)"), (&written, "***")] {
        let destinations = read(text, &Kept::default()).unwrap();
        let [cellar] = &destinations[..] else { panic!("{destinations:?}") };
        let keys: toml::Table = cellar.shown().into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let expected = format!(
            "kind = \"shelf\"\nroom = \"cellar\"\nkey = \"{shown}\"\nbatch = 10\ntimeout = \"5s\"\nconcurrency = 3\n\
             paused = false\n"
        );
        assert_eq!(keys, expected.parse().unwrap());
        assert!(!format!("{cellar:?}").contains("hunter2"), "{cellar:?}");
        assert_eq!((cellar.kind(), cellar.shown_address().as_deref()), ("shelf", Some("cellar")));
        assert!(cellar.build(&Surroundings(Some("hunter2"))).unwrap().reach().await.is_ok());
    }
    let cellar = read(CONFIGURED, &Kept::default()).unwrap().remove(0);
    let wrong = cellar.build(&Surroundings(Some("hunter3"))).unwrap().reach().await.unwrap_err();
    assert_eq!(wrong.to_string(), "the key does not fit");
    let missing = cellar.build(&Surroundings(None)).err().unwrap().to_string();
    assert!(missing.starts_with("destinations.cellar.key is env:SHELF_KEY, but the environment"), "{missing}");
}

#[test]
fn all_problems_with_its_keys_are_reported_at_once_with_suggestions() {
    let problems = refusal("[cellar]\nkind = \"shelf\"\nkye = \"hunter2\"\nbatch = \"hunter2\"");
    for problem in [
        "the configuration has 3 problems:",
        "destinations.cellar.room is missing; write where the shelf is, like \"cellar\"",
        "destinations.cellar.batch is of type string, but must be a whole number",
        "destinations.cellar.kye is not a key; did you mean key?",
    ] {
        assert!(problems.contains(problem), "{problems}");
    }
    assert!(!problems.contains("hunter2"), "{problems}");
}

#[test]
fn a_missing_or_unknown_kind_is_answered_with_all_kinds() {
    let missing = refusal("[a]\nroom = \"cellar\"");
    let written = missing.strip_prefix("destinations.a.kind is missing; write ").unwrap();
    assert!(written.ends_with("\"shelf\", or \"discard\" for a dry run"), "{missing}");
    let unknown = refusal("[a]\nkind = \"zzz\"\nroom = \"cellar\"");
    let (_, all) = unknown.split_once("is \"zzz\", which is not valid; choose one of: ").unwrap();
    let all: Vec<&str> = all.split(", ").collect();
    assert!(all.contains(&"shelf") && all.contains(&"discard"), "{unknown}");
    #[cfg(feature = "all")]
    for kind in ["http", "celery", "redis"] {
        assert!(written.contains(&format!("{kind:?}")) && all.contains(&kind), "{missing} {unknown}");
    }
    assert!(refusal("[a]\nkind = \"shlef\"").contains("did you mean shelf?"));
}

#[test]
fn a_dry_run_is_one_changed_word() {
    let dry = CONFIGURED.replace("shelf", "discard");
    let cellar = read(&dry, &Kept::default()).unwrap().remove(0);
    assert_eq!((cellar.kind(), cellar.is_dry_run()), ("discard", true));
    assert!(cellar.build(&Surroundings(None)).is_ok(), "it needs no secret");
    assert!(read("[a]\nkind = \"discard\"", &Kept::default()).is_ok(), "nothing is required");
    let problem = refusal(&dry.replace("room = \"cellar\"", "room = 1"));
    assert!(problem.contains("destinations.cellar.room is of type integer, but must be text"), "{problem}");
    assert!(refusal("[a]\nkind = \"discard\"\nrom = \"x\"").contains("did you mean room?"));
}
