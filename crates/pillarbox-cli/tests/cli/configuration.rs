//! What it is told, and what it says to what it cannot be told.

use pillarbox_testkit::process::Program;

use crate::delivering::PATIENCE;
use crate::home::{DISCARD, Home};

#[test]
fn without_any_configuration_it_works_on_a_file_of_its_own() {
    let home = Home::new();
    let emitted = home.run(&["emit", "Order", "42", "order.placed", r#"{"total": 19.90}"#]).succeeded();
    assert!(emitted.out.starts_with("emitted order.placed "), "{emitted:?}");
    assert!(emitted.err.contains("created a new outbox in pillarbox.db"), "{emitted:?}");
    assert!(home.path("pillarbox.db").exists());

    let stats = home.run(&["stats"]).succeeded();
    assert!(stats.out.starts_with("the outbox in sqlite://pillarbox.db\n\ndue        1"), "{stats:?}");
    assert_eq!(stats.err, "");
    let list = home.run(&["events", "list"]).succeeded();
    assert!(list.out.contains("due    order.placed  Order 42"), "{list:?}");
    // There is no route yet, so the event waits for one, visibly.
    assert!(home.run(&["sweep"]).succeeded().out.contains("processed 1 event, 0 remaining"));
    assert_eq!(home.json(&["stats"])["parked"][0]["on"], "unrouted");
}

#[test]
fn an_unknown_key_is_refused_with_the_one_that_was_meant() {
    let home = Home::with_config("[relay]\nbatch_sise = 5\n");
    let done = home.run(&["stats"]);
    assert_eq!(done.code, 2);
    assert_eq!(done.err, "error: pillarbox.toml: relay.batch_sise is not a key; did you mean batch_size?\n");
    assert!(!home.path("pillarbox.db").exists());
    let done = home.run(&["stats", "--json"]);
    assert_eq!((done.code, done.out.as_str()), (2, ""));
    assert!(done.json_error().contains("did you mean batch_size?"));
}

#[test]
fn a_configuration_can_be_named_and_must_then_be_there() {
    let home = Home::new();
    home.write("other.toml", "[database]\nurl = \"sqlite://other.db\"\n");
    home.run(&["migrate", "--config", "other.toml"]).succeeded();
    home.run(&["stats", "--config", "other.toml"]).succeeded();
    assert!(home.path("other.db").exists() && !home.path("pillarbox.db").exists());
    let done = home.run(&["--config", "missing.toml", "stats"]);
    assert_eq!(done.code, 2);
    assert!(done.err.contains("missing.toml: the configuration cannot be read"), "{done:?}");
}

#[test]
fn the_environment_wins_over_the_file() {
    let mut home = Home::with_config("[database]\nurl = \"sqlite://file.db\"\n");
    home.set("PILLARBOX_DATABASE_URL", "sqlite:environment.db");
    home.set("PILLARBOX_RELAY_RETRY_BASE", "2s");
    home.run(&["migrate"]).succeeded();
    home.run(&["stats"]).succeeded();
    assert!(home.path("environment.db").exists() && !home.path("file.db").exists());
    assert_eq!(home.json(&["check-config"])["settings"]["relay"]["retry"]["base"], "2s");
    home.set("PILLARBOX_RELAY_BATCHSIZE", "5");
    let done = home.run(&["check-config"]).succeeded();
    assert!(done.err.contains("did you mean PILLARBOX_RELAY_BATCH_SIZE?"), "{done:?}");
    home.set("PILLARBOX_DATABASE_ULR", "sqlite://other.db");
    let done = home.run(&["stats"]);
    assert!(done.err.contains("did you mean PILLARBOX_DATABASE_URL?"), "{done:?}");
}

#[test]
fn another_database_is_refused_with_those_there_are() {
    let mut home = Home::new();
    home.set("PILLARBOX_DATABASE_URL", "oracle://ann:hunter2@db/shop");
    let done = home.run(&["stats"]);
    assert_eq!(done.code, 2);
    assert!(done.err.contains("PILLARBOX_DATABASE_URL begins with \"oracle\""), "{done:?}");
    assert!(done.err.contains("write sqlite://FILE, postgres://"), "{done:?}");
    assert!(!done.err.contains("hunter2"), "{done:?}");
}

#[test]
fn a_missing_secret_is_named_by_those_who_need_it() {
    let config = "[destinations.runner]\nkind = \"http\"\nurl = \"https://runner.example/\"\nbearer = \"env:TOKEN\"\n";
    let mut home = Home::with_config(config);
    home.run(&["migrate"]).succeeded();
    for command in ["check-config", "sweep", "relay"] {
        let done = home.run(&[command]);
        assert_eq!(done.code, 2, "{done:?}");
        let expected = "destinations.runner.bearer is env:TOKEN, but the environment variable TOKEN is not set";
        assert!(done.err.contains(expected), "{done:?}");
    }
    // A host that only emits does not need it.
    home.emit("1", &[]);
    home.set("TOKEN", "hunter2");
    home.run(&["check-config"]).succeeded();
}

#[test]
fn secrets_are_never_printed() {
    let config = r#"
        [database]
        url = "postgres://ann:hunter2@db:99999/shop"
        [destinations.runner]
        kind = "http"
        url = "https://runner.example/events/hunter2hunter2hunter2?token=hunter2"
        secrets = ["whsec_hunter2hunter2hunter2hunter2hunt", "env:SECRET"]
        bearer = "file:token"
        headers = { x-key = "hunter2" }
        [[routes]]
        to = ["runner"]
    "#;
    let mut home = Home::with_config(config);
    home.set("SECRET", "whsec_hunter2hunter2hunter2hunter2hunter2h");
    home.set("RUST_LOG", "trace");
    home.write("token", "hunter2\n");
    let check = home.run(&["check-config"]);
    assert!(check.out.contains("postgres://ann:***@db:99999/shop"), "{check:?}");
    assert!(check.out.contains("*** (env:SECRET)") && check.out.contains("*** (file:token)"), "{check:?}");
    // There is no such port, so this fails and says so.
    let stats = home.run(&["stats"]);
    assert_eq!(stats.code, 1);
    assert!(stats.err.contains("reading the database's URL"), "{stats:?}");
    for done in [check, stats, home.run(&["check-config", "--json"]), home.run(&["relay"])] {
        assert!(!done.out.contains("hunter2") && !done.err.contains("hunter2"), "{done:?}");
    }
}

#[test]
fn the_default_configuration_is_printed_and_can_be_used() {
    let home = Home::new();
    let default = home.run(&["check-config", "--default"]).succeeded();
    assert!(default.out.starts_with("# Pillarbox's configuration: every key with its default."));
    home.write("pillarbox.toml", &default.out);
    let done = home.run(&["check-config"]).succeeded();
    assert!(done.err.contains("there are no routes"), "{done:?}");
    assert!(done.err.ends_with("configuration is valid\n"), "{done:?}");
    assert_eq!(home.json(&["check-config", "--default"])["default"], default.out.as_str());
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_discarded_is_warned_of() {
    let unused = "[destinations.spare]\nkind = \"discard\"\n";
    let home = Home::with_config(&format!("[relay]\nunrouted = \"discard\"\n{DISCARD}{unused}"));
    let destination = "destination \"nowhere\" discards events: it marks them delivered and sends nothing";
    let unrouted = "relay.unrouted discards events: events that match no route are marked delivered";
    home.run(&["migrate"]).succeeded();
    let checked = home.run(&["check-config"]).succeeded();
    let doctor = home.run(&["doctor"]).succeeded();
    let sweep = home.run(&["sweep"]).succeeded();
    for said in [&checked.err, &doctor.out, &sweep.err] {
        assert!(said.contains(destination) && said.contains(unrouted), "{said}");
        assert!(!said.contains("\"spare\" discards"), "{said}");
    }
    let mut relay = Program::start(home.command(&["relay"]));
    relay.wait_for_line(destination, PATIENCE).await.unwrap();
    relay.wait_for_line(unrouted, PATIENCE).await.unwrap();
    assert!(relay.terminate(PATIENCE).await.unwrap().success());
    let remarks = home.json(&["check-config"])["remarks"].to_string();
    assert!(remarks.contains("discards events"), "{remarks}");
    let sent = "[destinations.a]\nkind = \"http\"\nurl = \"https://a.example/\"\n[[routes]]\nto = [\"a\"]\n";
    home.write("pillarbox.toml", sent);
    assert!(!home.run(&["check-config"]).succeeded().err.contains("discards"));
}

#[test]
fn what_is_in_force_can_be_read_back() {
    let home = Home::with_config(DISCARD);
    let first = home.run(&["check-config"]).succeeded();
    home.write("pillarbox.toml", &first.out);
    assert_eq!(home.run(&["check-config"]).succeeded().out, first.out);
}

#[test]
fn a_wrong_command_line_is_exit_code_2_in_either_form() {
    let home = Home::new();
    assert_eq!(home.run(&[]).code, 2);
    assert_eq!(home.run(&["emti"]).code, 2);
    let done = home.run(&["events", "retry", "42", "--json"]);
    assert_eq!((done.code, done.out.as_str()), (2, ""));
    assert!(done.json_error().contains("invalid value '42'"), "{done:?}");
    assert!(done.json_error().contains("`pillarbox events show '42'` searches"), "{done:?}");
    let help = home.run(&["--help"]).succeeded();
    assert!(help.out.contains("Exit codes: 0 success, 1 failure, 2 invalid command line or configuration"));
    assert!(home.run(&["--version"]).succeeded().out.starts_with("pillarbox 0."));
}
