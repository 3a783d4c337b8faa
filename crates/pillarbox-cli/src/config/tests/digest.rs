//! Tests of the digest that relays write into `outbox_relay`.

use super::*;

const FILE: &str = r#"
[destinations.billing]
kind = "http"
url = "https://billing.example"
[destinations.nowhere]
kind = "discard"
[[routes]]
events = "order.*"
to = ["billing"]
[[routes]]
to = ["nowhere"]
"#;

fn digest(text: &str) -> String {
    parse(text).unwrap().digest()
}

/// A relay of another platform, or of a later version, must not seem to disagree.
#[test]
fn the_digest_is_the_same_everywhere() {
    assert_eq!(digest(FILE), "2475b027630167ad5059e186069049ff2d41b81ec66a98398dadc4b597ee16d4");
    assert_eq!(digest(""), digest("[database]\nurl = \"postgres://ann@db/shop\"\n[relay]\nbatch_size = 7\n"));
    let (one, other) = FILE.split_once("[destinations.nowhere]").unwrap();
    let (nowhere, routes) = other.split_once("[[routes]]").unwrap();
    assert_eq!(digest(&format!("[destinations.nowhere]{nowhere}{one}[[routes]]{routes}")), digest(FILE));
}

#[test]
fn the_digest_changes_with_routes_and_destinations_and_not_with_secrets() {
    for (from, to) in [
        ("order.*", "invoice.*"),
        ("to = [\"nowhere\"]", "to = [\"nowhere\", \"billing\"]"),
        ("to = [\"nowhere\"]", "aggregates = \"Order\"\nto = [\"nowhere\"]"),
        ("to = [\"nowhere\"]", "where = \"$[?@.a]\"\nto = [\"nowhere\"]"),
        ("billing.example", "other.example"),
        ("\"discard\"", "\"http\"\nurl = \"https://nowhere.example\""),
        ("nowhere", "elsewhere"),
    ] {
        assert_ne!(digest(&FILE.replace(from, to)), digest(FILE), "{to}");
    }
    let large = |least: i32| FILE.replace("events", &format!("where = \"$[?@.total > {least}]\"\nevents"));
    assert_ne!(digest(&large(100)), digest(&large(200)));
    assert_ne!(digest(&format!("{FILE}[relay]\nunrouted = \"discard\"\n")), digest(FILE));
    let more = "billing.example\"\nbearer = \"hunter2\"\ntimeout = \"3s\"";
    assert_eq!(digest(&FILE.replace("billing.example\"", more)), digest(FILE));
}
