//! Which messages a destination gets. The document as a whole is tested with the program, by the official validator.

use std::path::Path;

use super::*;
use crate::config::Environment;

fn messages(text: &str) -> Value {
    let destination = "[destinations.a]\nkind = \"http\"\nurl = \"https://a.example/\"\n";
    let text = format!("{destination}{text}");
    let settings = Settings::parse(&text, Some(Path::new("pillarbox.toml")), &Environment::default()).unwrap();
    let schemas = vec![json!({}); settings.schemas.len()];
    let document = document(&About { title: "t", version: "1" }, &settings, &schemas);
    let mut keys: Vec<String> = document["channels"]["a"]["messages"].as_object().unwrap().keys().cloned().collect();
    keys.sort();
    json!(keys)
}

fn routes_and_schemas(routes: &[&str], schemas: &[&str]) -> Value {
    let routes = routes.iter().map(|events| format!("[[routes]]\nevents = \"{events}\"\nto = [\"a\"]\n"));
    let schemas = schemas.iter().map(|events| format!("[[schemas]]\nevents = \"{events}\"\nfile = \"x.json\"\n"));
    messages(&routes.chain(schemas).collect::<String>())
}

#[test]
fn a_destination_gets_the_schemas_that_its_routes_can_bring() {
    assert_eq!(routes_and_schemas(&["order.*"], &[]), json!(["order.any"]));
    assert_eq!(routes_and_schemas(&["order.*"], &["invoice.*"]), json!(["order.any"]));
    assert_eq!(routes_and_schemas(&["order.*"], &["order.placed"]), json!(["order.any", "order.placed"]));
    assert_eq!(routes_and_schemas(&["*"], &["order.placed", "*"]), json!(["any", "order.placed"]));
    // The first schema that matches decides, so nothing of the second one arrives.
    assert_eq!(routes_and_schemas(&["order.placed"], &["*", "order.placed"]), json!(["any"]));
    assert_eq!(routes_and_schemas(&["order.placed", "order.lost"], &["order.*"]), json!(["order.any"]));
}

#[test]
fn keys_differ_where_names_do() {
    let mut keys = Keys::default();
    let made: Vec<String> = ["order.*", "order.any", "größe", "gr__e", ""].iter().map(|name| keys.key(name)).collect();
    assert_eq!(made, ["order.any", "order.any-2", "gr__e", "gr__e-2", "_"]);
}
