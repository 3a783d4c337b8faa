//! Any text is either read as a configuration or refused, and none of its secrets is shown.

use proptest::prelude::*;

use super::*;

const MARK: &str = "hunter2";

/// Returns a value that contains the secret, in a valid or invalid form.
fn secret() -> impl Strategy<Value = String> {
    let text =
        ("[a-z:/@?=&_ -]{0,8}", "[a-z:/@?=&_ -]{0,8}").prop_map(|(before, behind)| format!("{before}{MARK}{behind}"));
    let schemes =
        prop_oneof![Just("whsec_"), Just("http://a.example/"), Just("amqp://a:"), Just("redis://:"), Just("")];
    let text = (schemes, text).prop_map(|(scheme, text)| format!("\"{scheme}{text}\""));
    let nested =
        prop_oneof![Just(("", "")), Just(("[", "]")), Just(("{ x = ", " }")), Just(("[[", "]]")), Just(("[1, ", "]"))];
    (nested, text).prop_map(|((open, close), text)| format!("{open}{text}{close}"))
}

fn line(keys: &'static [&'static str]) -> impl Strategy<Value = String> {
    (proptest::sample::select(keys), secret()).prop_map(|(key, value)| format!("{key} = {value}\n"))
}

/// Returns destinations, users and headers with secrets in their usual places.
fn with_secrets() -> impl Strategy<Value = String> {
    let keys = &["url", "secrets", "bearer", "headers", "headers.x-key", "broker", "sentinel_password"];
    let destination = ("http|celery|redis|discard|other", proptest::collection::vec(line(keys), 0..4));
    let user = line(&["password", "token"]);
    let tracing = line(&["headers", "headers.authorization"]);
    let password = ("[a-z]{0,5}", "[a-z0-9.:/?=&-]{0,12}");
    (destination, user, tracing, password).prop_map(|((kind, keys), user, tracing, (scheme, host))| {
        format!(
            "[database]\nurl = \"{scheme}://ann:{MARK}@{host}\"\n[destinations.a]\nkind = \"{kind}\"\n{}\
             [admin.users.a]\nrole = \"viewer\"\n{user}[tracing]\n{tracing}",
            keys.concat()
        )
    })
}

/// Reads the text, and returns all output about it.
fn everything_said(text: &str) -> String {
    let environment = Environment::default();
    let settings = match parse(text) {
        Ok(settings) => settings,
        Err(error) => return error,
    };
    let mut said = format!("{settings:?} {}", settings.shown_json());
    for shown in settings.shown() {
        said.push_str(&shown.to_string());
    }
    for destination in &settings.destinations {
        said.push_str(&format!("{:?} ", destination.shown_address()));
        if let Err(error) = destination::build(destination, &environment, &Mask::default()) {
            said.push_str(&error.to_string());
        }
    }
    for user in &settings.admin.users {
        said.extend(user.known(&environment).err().map(|error| error.to_string()));
    }
    said.extend(settings.tracing.export(&environment).err().map(|error| error.to_string()));
    said
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_text_is_read_or_refused(text in any::<String>()) {
        let _ = parse(&text);
    }

    #[test]
    fn any_value_of_any_key_is_read_or_refused(
        section in "database|source|relay|relay.retry|relay.breaker|metrics|tracing|log|admin|destinations.a",
        key in "url|kind|batch_size|concurrency|lease|base|cap|jitter|threshold|listen|hosts|mask|trusted_proxies|tags|timeout|rate",
        value in prop_oneof![
            any::<i64>().prop_map(|number| number.to_string()),
            any::<f64>().prop_map(|number| format!("{number:?}").replace("NaN", "nan")),
            "[0-9a-z.:/$*\\[\\]-]{0,20}".prop_map(|text| format!("{text:?}")),
            any::<String>().prop_map(|text| toml::Value::String(text).to_string()),
            "[0-9a-z.:/]{0,9}".prop_map(|text| format!("[{text:?}, {text:?}]")),
        ],
    ) {
        let _ = parse(&format!("[{section}]\n{key} = {value}\n"));
    }

    #[test]
    fn no_secret_is_shown_whatever_its_shape(text in with_secrets()) {
        let said = everything_said(&text);
        prop_assert!(!said.contains(MARK), "{text}\n{said}");
    }

    #[test]
    fn no_secret_is_shown_of_a_broken_file(text in with_secrets(), cut in any::<proptest::sample::Index>()) {
        let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        let said = everything_said(&text[..places[cut.index(places.len())]]);
        prop_assert!(!said.contains(MARK), "{text}\n{said}");
    }
}
