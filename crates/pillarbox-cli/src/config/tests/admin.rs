//! `[admin]`.

use super::*;
use pillarbox_admin::Role;

use crate::config::admin::{Listen, USUAL};

const USER: &str = "[admin.users.anna]\nrole = \"operator\"\ntoken = \"env:TOKEN\"\n";

#[test]
fn it_is_served_at_the_usual_place_elsewhere_or_not_at_all() {
    assert_eq!(parse("").unwrap().admin.listen, Listen::Usual);
    assert_eq!(parse("[admin]\nlisten = \"127.0.0.1:8800\"").unwrap().admin.listen, Listen::At(USUAL));
    assert_eq!(parse("[admin]\nlisten = \"off\"").unwrap().admin.listen, Listen::Off);
    let variables = [("PILLARBOX_ADMIN_LISTEN", "[::1]:1"), ("PILLARBOX_ADMIN_HOSTS", "one.example, two.example")];
    let admin = parse_with("", &Environment::from(variables)).unwrap().admin;
    assert_eq!(admin.listen, Listen::At("[::1]:1".parse().unwrap()));
    assert_eq!(admin.hosts, ["one.example", "two.example"]);
    assert!(refusal("[admin]\nlisten = \"nowhere\"").contains("like \"127.0.0.1:8800\", or \"off\""));
}

#[test]
fn others_reach_it_only_where_there_are_users() {
    let elsewhere = "[admin]\nlisten = \"0.0.0.0:8800\"\n";
    assert!(
        refusal(elsewhere).contains("admin.listen is 0.0.0.0:8800, which others can reach, and there are no users")
    );
    let admin = parse(&format!("{elsewhere}{USER}")).unwrap().admin;
    assert_eq!((admin.users[0].name.as_str(), admin.users[0].role), ("anna", Role::Operator));
}

#[test]
fn what_is_wrong_is_told_with_its_key_and_never_the_secret() {
    let problems = [
        ("[admin]\ntls_key = \"a\"", "admin.tls_key is set without tls_certificate"),
        ("[admin]\ntls_certificate = \"a\"", "admin.tls_certificate is set without tls_key"),
        ("[admin]\nhosts = [\"https://a.example\"]", "admin.hosts has \"https://a.example\""),
        ("[admin]\nmask = [\"card\"]", "admin.mask has"),
        ("[admin]\ntrusted_proxies = [\"10.0.0.0/99\"]", "admin.trusted_proxies has \"10.0.0.0/99\""),
        ("[admin]\nuser_header = \"x-user\"", "admin.user_header is set without trusted_proxies"),
        (
            "[admin]\nuser_header = \"x-user\"\ntrusted_proxies = [\"10.0.0.1\"]",
            "admin.user_header is set without users",
        ),
        ("[admin]\nuser_header = \"a b\"", "admin.user_header is \"a b\", but must be the name of a header"),
        ("[admin.users.a]\ntoken = \"t0p\"", "admin.users.a has no role"),
        ("[admin.users.a]\nrole = \"viewer\"", "admin.users.a has neither password nor token"),
        ("[admin.users.a]\nrole = \"owner\"\ntoken = \"t0p\"", "admin.users.a.role is \"owner\", which is not valid"),
        ("[admin.users.anyone]\nrole = \"viewer\"\ntoken = \"t0p\"", "cannot be called \"anyone\""),
        ("[admin.users.a]\nrole = \"viewer\"\npasword = \"t0p\"", "did you mean password?"),
    ];
    for (text, told) in problems {
        let problem = refusal(text);
        assert!(problem.contains(told) && !problem.contains("t0p"), "{text}: {problem}");
    }
}

#[test]
fn hashes_are_looked_up_when_they_are_needed_and_checked_then() {
    let user = parse(USER).unwrap().admin.users.remove(0);
    let told = |environment: &Environment| user.known(environment).map(drop).unwrap_err().to_string();
    assert!(told(&Environment::default()).contains("admin.users.anna.token is env:TOKEN, but"));
    for wrong in ["secret", "zz", &"ä".repeat(32), &"g".repeat(64)] {
        let problem = told(&Environment::from([("TOKEN", wrong)]));
        assert!(problem.contains("is not the SHA-256 of a token") && !problem.contains(wrong), "{problem}");
    }
    let hash = "ab".repeat(32);
    let known = user.known(&Environment::from([("TOKEN", hash.as_str())])).unwrap();
    assert!(!format!("{known:?}").contains(&hash), "{known:?}");
}

#[test]
fn the_default_file_has_every_key() {
    let examples: toml::Table = default_file_with_examples().parse().unwrap();
    let keys = |table: &toml::Value| table.as_table().unwrap().keys().cloned().collect::<Vec<_>>().join(", ");
    let all = |text: &str| {
        let problem = refusal(text);
        let told = problem.lines().find_map(|line| line.split_once("choose one of: ")).unwrap().1;
        let mut all: Vec<&str> = told.split(", ").collect();
        all.sort_unstable();
        all.join(", ")
    };
    assert_eq!(keys(&examples["admin"]), all("[admin]\nzzzzz = 1"));
    assert_eq!(keys(&examples["admin"]["users"]["anna"]), all(&format!("{USER}zzzzz = 1")));
}
