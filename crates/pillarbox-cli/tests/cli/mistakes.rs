//! Mistakes that people make at a terminal, and the help that they get.

use crate::home::{DISCARD, Home};

#[test]
fn a_command_in_the_wrong_directory_creates_no_outbox() {
    let home = Home::with_config(DISCARD);
    let id = "00000000-0000-0000-0000-000000000000";
    let commands: [&[&str]; 13] = [
        &["stats"],
        &["events", "list"],
        &["events", "show", id],
        &["events", "retry", id],
        &["events", "replay", id],
        &["events", "fail", id],
        &["dead-letters"],
        &["destinations", "list"],
        &["cleanup"],
        &["top", "--once"],
        &["doctor"],
        &["sweep"],
        &["admin", "--listen", "127.0.0.1:0"],
    ];
    let searched = home.path("pillarbox.db");
    for command in commands {
        let done = home.run(command);
        assert_eq!((done.code, done.out.as_str()), (1, ""), "{command:?}: {done:?}");
        for part in [searched.to_str().unwrap(), "`pillarbox migrate`", "--config", "PILLARBOX_DATABASE_URL"] {
            assert!(done.err.contains(part), "{command:?}: {part} in {done:?}");
        }
        assert!(!home.path("pillarbox.db").exists(), "{command:?}");
    }
    home.run(&["migrate"]).succeeded();
    home.run(&["stats"]).succeeded();
}

#[test]
fn settings_that_are_probably_mistakes_are_remarked_on() {
    let home = Home::with_config(
        "[destinations.billing]\nkind = \"http\"\nurl = \"http://localhost:8080/events\"\nbearer = \"hunter2\"\n\
         [destinations.mail]\nkind = \"http\"\nurl = \"https://mail.example/\"\nbearer = \"env:TOKEN\"\n\
         [destinations.beside]\nkind = \"http\"\nurl = \"http://localhost:8081/\"\nallow_private = true\n\
         [[routes]]\nto = [\"billing\", \"mail\", \"beside\"]\n",
    );
    let done = home.command(&["check-config"]).env("TOKEN", "0123456789abcdef01234567").output().unwrap();
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(done.status.success(), "{said}");
    for part in [
        "note: destinations.billing.url names localhost, which is usually a private address",
        "set allow_private = true",
        "note: destinations.billing.bearer has 7 bytes",
    ] {
        assert!(said.contains(part), "{part} in {said}");
    }
    assert!(!said.contains("destinations.mail") && !said.contains("destinations.beside"), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
    // A signing secret that can be guessed, and an address that is certainly private, are errors.
    home.write(
        "short.toml",
        "[destinations.a]\nkind = \"http\"\nurl = \"https://a.example\"\nsecrets = [\"whsec_aHVudGVy\"]\n",
    );
    let short = home.run(&["check-config", "--config", "short.toml"]);
    assert!(short.code == 2 && short.err.contains("destinations.a.secrets[0]"), "{short:?}");
    home.write("private.toml", "[destinations.a]\nkind = \"http\"\nurl = \"http://10.1.2.3/\"\n");
    let private = home.run(&["check-config", "--config", "private.toml"]);
    assert!(private.code == 2 && private.err.contains("allow_private = true"), "{private:?}");
}

#[test]
fn a_misplaced_key_is_refused_with_its_place() {
    let home = Home::new();
    for (text, problem) in [
        ("[relay]\nmax_attempts = 3\n", "relay.max_attempts is not a key; did you mean relay.retry.max_attempts?"),
        ("[relay]\nbase = \"2s\"\n", "relay.base is not a key; did you mean relay.breaker.base or relay.retry.base?"),
        ("max_attempts = 3\n", "max_attempts is not a section; did you mean relay.retry.max_attempts?"),
        ("[retry]\nbase = \"2s\"\n", "retry is not a section; did you mean relay.retry?"),
        ("[database]\nbatch_size = 3\n", "database.batch_size is not a key; did you mean relay.batch_size?"),
        ("[relay.retry]\nmax_atempts = 3\n", "relay.retry.max_atempts is not a key; did you mean max_attempts?"),
        (
            "[relay]\nallow_private = true\n[destinations.a]\nkind = \"http\"\nurl = \"https://a.example\"\n",
            "relay.allow_private is not a key; did you mean destinations.a.allow_private?",
        ),
    ] {
        home.write("pillarbox.toml", text);
        let done = home.run(&["check-config"]);
        assert_eq!((done.code, done.err.as_str()), (2, format!("error: pillarbox.toml: {problem}\n").as_str()));
    }
}

#[test]
fn an_aggregate_instead_of_an_id_is_searched_for() {
    let home = Home::with_config(DISCARD);
    let id = home.emit("42", &[]);
    home.emit("43", &[]);
    home.run(&["sweep"]).succeeded();
    for words in [&["42"][..], &["Order:42"]] {
        let done = home.run(&[&["events", "show"], words].concat());
        assert_eq!((done.code, done.out.as_str()), (2, ""), "{done:?}");
        let row = format!("  {id}  delivered  order.placed  Order 42\n");
        assert!(done.err.contains("is not the id of an event; these events match it:\n"), "{done:?}");
        assert!(done.err.contains(&row) && !done.err.contains("Order 43"), "{done:?}");
    }
    let done = home.run(&["events", "show", "44", "--json"]);
    assert_eq!((done.code, done.out.as_str()), (2, ""));
    assert!(done.json_error().contains("`pillarbox events list --search '44'`"), "{done:?}");
    assert!(home.run(&["events", "show"]).code == 2);
}

#[tokio::test]
async fn a_taken_port_is_an_error_if_it_was_chosen() {
    let home = Home::with_config(DISCARD);
    home.run(&["migrate"]).succeeded();
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let done = home.command(&["relay"]).env("PILLARBOX_ADMIN_LISTEN", &address).output().unwrap();
    let said = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(said.contains("admin.listen") && said.contains(&address) && said.contains("in use"), "{said}");
    let done = home.run(&["admin", "--listen", &address]);
    assert!(done.code == 1 && done.err.contains("admin.listen"), "{done:?}");
}
