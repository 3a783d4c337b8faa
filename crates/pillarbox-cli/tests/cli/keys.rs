//! The keys that sign: listed without secrets, made, and rotated.

use serde_json::json;

use crate::home::Home;

const HMAC: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
/// The first test of RFC 8032.
const PRIVATE: &str = "whsk_nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=";
const PUBLIC: &str = "whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";

fn home() -> Home {
    let mut home = Home::with_config(&format!(
        "[destinations.billing]\nkind = \"http\"\nurl = \"https://billing.example/\"\nsecrets = [\"env:NEW\", \"{HMAC}\"]\n\
         [destinations.mail]\nkind = \"http\"\nurl = \"https://mail.example/\"\nsecrets = [\"env:MAIL_SECRET\"]\n\
         [destinations.open]\nkind = \"http\"\nurl = \"https://open.example/\"\n\
         [destinations.\"shop 2\"]\nkind = \"http\"\nurl = \"https://shop.example/\"\nsecrets = [\"env:UNSET\"]\n\
         [destinations.nowhere]\nkind = \"discard\"\n"
    ));
    home.set("NEW", PRIVATE);
    home.set("MAIL_SECRET", HMAC);
    home
}

#[test]
fn keys_are_listed_with_their_public_keys_and_without_secrets() {
    let home = home();
    let listed = home.json(&["keys"]);
    let key = |secret, kind, public| json!({ "secret": secret, "kind": kind, "public_key": public, "error": null });
    assert_eq!(
        listed[0],
        json!({ "destination": "billing", "keys": [key("env:NEW", "ed25519", json!(PUBLIC)), key("***", "hmac", json!(null))] })
    );
    assert_eq!(listed[2], json!({ "destination": "open", "keys": [] }));
    assert_eq!(
        listed[3]["keys"][0]["error"],
        "secrets[0] is env:UNSET, but the environment variable UNSET is not set; set it"
    );
    assert_eq!(listed.as_array().unwrap().len(), 4, "a dry run signs nothing: {listed}");
    let shown = home.run(&["keys"]).succeeded();
    for part in [PUBLIC, "ed25519", "hmac", "not signed", "unusable"] {
        assert!(shown.out.contains(part), "{part} in {shown:?}");
    }
    for secret in [PRIVATE, HMAC, &PRIVATE[5..30], &HMAC[6..30]] {
        assert!(!shown.out.contains(secret) && !listed.to_string().contains(secret), "{shown:?}");
    }
}

#[test]
fn a_new_key_needs_no_configuration_and_works() {
    let mut home = Home::with_config("this is no configuration");
    let pair = home.json(&["keys", "new"]);
    assert_eq!(pair["kind"], "ed25519");
    let (private, public) = (pair["secret"].as_str().unwrap(), pair["public_key"].as_str().unwrap());
    assert!(private.starts_with("whsk_") && public.starts_with("whpk_"), "{pair}");
    assert_ne!(home.json(&["keys", "new"])["secret"], pair["secret"]);
    let shared = home.json(&["keys", "new", "--kind", "hmac"]);
    assert!(shared["secret"].as_str().unwrap().starts_with("whsec_") && shared["public_key"].is_null(), "{shared}");
    let shown = home.run(&["keys", "new"]).succeeded().out;
    assert!(shown.contains("private key, for the sender") && shown.contains("shown only once"), "{shown}");

    home.write(
        "pillarbox.toml",
        "[destinations.a]\nkind = \"http\"\nurl = \"https://a.example/\"\nsecrets = [\"env:ONE\", \"env:TWO\"]\n[[routes]]\nto = [\"a\"]\n",
    );
    home.set("ONE", private);
    home.set("TWO", shared["secret"].as_str().unwrap());
    assert_eq!(home.json(&["keys"])[0]["keys"][0]["public_key"], public);
    assert_eq!(home.json(&["check-config"])["remarks"], json!([]));
}

#[test]
fn a_rotation_says_what_to_write_where_and_when() {
    let mut home = home();
    let rotation = home.json(&["keys", "rotate", "mail"]);
    let variable = rotation["variable"].as_str().unwrap().to_owned();
    assert!(variable.starts_with("MAIL_KEY_2"), "{variable}");
    // Of the kind of the present key, first the new one, then the old one.
    assert_eq!(rotation["kind"], "hmac");
    assert_eq!(rotation["secrets_during_the_overlap"], json!([format!("env:{variable}"), "env:MAIL_SECRET"]));
    assert_eq!(rotation["secrets_afterwards"], format!("env:{variable}"));
    assert_eq!(rotation["steps"].as_array().unwrap().len(), 3);
    assert!(!rotation.to_string().contains(HMAC), "the old secret is not shown");

    let shown = home.run(&["keys", "rotate", "mail", "--kind", "ed25519"]).succeeded().out;
    let written = format!("secrets = [\"env:{variable}\", \"env:MAIL_SECRET\"]");
    for part in ["whsk_", "whpk_", "[destinations.mail]", &written, "each request has both signatures", "verify v1a"] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    // What it says can be pasted.
    let fresh = home.json(&["keys", "rotate", "mail", "--kind", "ed25519"]);
    home.set(&variable, fresh["secret"].as_str().unwrap());
    home.write(
        "pillarbox.toml",
        &format!("[destinations.mail]\nkind = \"http\"\nurl = \"https://mail.example/\"\n{written}\n[[routes]]\nto = [\"mail\"]\n"),
    );
    let kinds: Vec<_> =
        home.json(&["keys"])[0]["keys"].as_array().unwrap().iter().map(|key| key["kind"].clone()).collect();
    assert_eq!(kinds, ["ed25519", "hmac"]);
    // The next variables have other names, also those of a destination whose name is spelled alike.
    home.write(
        "pillarbox.toml",
        &format!(
            "[destinations.mail]\nkind = \"http\"\nurl = \"https://mail.example/\"\nsecrets = [\"env:{variable}_2\", \"env:{variable}\"]\n\
             [destinations.Mail]\nkind = \"http\"\nurl = \"https://mail.example/\"\n[[routes]]\nto = [\"mail\"]\n"
        ),
    );
    home.set(&format!("{variable}_2"), HMAC);
    for name in ["mail", "Mail"] {
        assert_eq!(home.json(&["keys", "rotate", name, "--kind", "hmac"])["variable"], format!("{variable}_3"));
    }
    // A second rotation before the first one has ended.
    let steps = home.json(&["keys", "rotate", "mail"])["steps"].to_string();
    assert!(steps.contains("A rotation is under way"), "{steps}");
}

#[test]
fn a_rotation_of_something_else_is_refused_with_what_to_do() {
    let home = home();
    for (arguments, told) in [
        (vec!["keys", "rotate", "mial"], "there is no destination \"mial\" in the configuration; did you mean mail?"),
        (vec!["keys", "rotate", "nowhere"], "is of kind \"discard\", which does not sign"),
        (vec!["keys", "rotate", "shop 2"], "choose one with --kind"),
    ] {
        let done = home.run(&arguments);
        assert!(done.code == 2 && done.err.contains(told), "{done:?}");
    }
    let unsigned = home.run(&["keys", "rotate", "open"]).succeeded().out;
    assert!(unsigned.contains("Requests are not signed yet") && unsigned.contains("whsk_"), "{unsigned}");
    let quoted = home.run(&["keys", "rotate", "shop 2", "--kind", "hmac"]).succeeded().out;
    assert!(quoted.contains("[destinations.\"shop 2\"]\n   secrets = [\"env:SHOP_2_KEY_"), "{quoted}");
}

#[test]
fn a_key_that_cannot_sign_is_refused_and_a_weak_one_is_remarked_on() {
    let mut home = Home::with_config(
        "[destinations.a]\nkind = \"http\"\nurl = \"https://a.example/\"\nsecrets = [\"env:KEY\", \"env:OTHER\"]\n[[routes]]\nto = [\"a\"]\n",
    );
    home.set("OTHER", HMAC);
    for (key, told) in [
        (PUBLIC, "destinations.a.secrets[0] is a public key (whpk_)"),
        ("whsk_aHVudGVyMg==", "destinations.a.secrets[0] has 7 bytes after whsk_"),
        ("whkey_hunter2", "destinations.a.secrets[0] is not a Standard Webhooks secret"),
    ] {
        let done = Home::command(&home, &["check-config"]).env("KEY", key).output().unwrap();
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(done.status.code() == Some(2) && said.contains(told), "{said}");
        assert!(!said.contains("hunter2") && !said.contains("aHVudGVyMg"), "{said}");
    }
    let weak = format!("whsk_{}=", "A".repeat(43));
    for (key, told) in [(weak.as_str(), "secrets[0] is not random"), (HMAC, "secrets[1] is there twice")] {
        let done = Home::command(&home, &["check-config"]).env("KEY", key).output().unwrap();
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(done.status.success() && said.contains(&format!("note: destinations.a.{told}")), "{said}");
    }
}
