//! The command that repeats a request by hand.

use pillarbox_testkit::receiver::Receiver;
use serde_json::Value;

use crate::access::serve;
use crate::home::Home;

/// The lines of a `curl` command that say a header, as name and value.
fn headers_of(command: &str) -> Vec<(String, String)> {
    let header = |line: &str| {
        let line = line.trim().strip_prefix("-H ")?.trim_end_matches(" \\").trim_matches(['\'', '"']).to_owned();
        line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned()))
    };
    command.lines().filter_map(header).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_curl_command_is_the_request_that_the_receiver_got_without_its_secrets() {
    /// What a command cannot have, or what curl says by itself.
    const ITS_OWN: [&str; 6] =
        ["accept", "content-length", "host", "pillarbox-attempt", "user-agent", "webhook-timestamp"];
    for format in ["payload", "cloudevents"] {
        let receiver = Receiver::start().await;
        let mut home = Home::with_config(&format!(
            "[destinations.runner]\nkind = \"http\"\nurl = \"{}\"\nallow_private = true\nbearer = \"env:TOKEN\"\n\
             format = \"{format}\"\nheaders = {{ x-key = \"hunter2\" }}\n[[routes]]\nto = [\"runner\"]\n",
            receiver.url("/")
        ));
        home.set("TOKEN", "hunter2");
        let trace = "traceparent=00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let payload = r#"{"it's":"größer than 1.10","n":1.10}"#;
        let more = [payload, "--header", trace, "--header", "tenant=acme", "--header", "host=evil", "--key", "a key"];
        let emitted = home.json(&[&["emit", "Größe", "a b", "order.placed"][..], &more].concat());
        home.run(&["sweep"]).succeeded();
        let got = &receiver.received()[0];
        let (_admin, mut client) = serve(&home).await;
        let full = client.get(&format!("/api/v1/events/{}", emitted["id"].as_str().unwrap())).await.json();
        let command = full["requests"][0]["command"].as_str().unwrap();
        assert!(command.starts_with(&format!("curl -X POST '{}'", receiver.url("/"))), "{command}");
        let said = headers_of(command);
        for (name, value) in &said {
            let value = value.replace("$TOKEN", "hunter2").replace("***", "hunter2");
            assert_eq!(got.headers[name.as_str()], value, "{name}: {command}");
        }
        for name in got.headers.keys().filter(|name| !ITS_OWN.contains(&name.as_str())) {
            assert!(said.iter().any(|(said, _)| name == said.as_str()), "{name} is missing: {command}");
        }
        let (_, body) = command.split_once("--data-binary '").unwrap();
        let body = body.strip_suffix('\'').unwrap().replace(r"'\''", "'");
        assert!(body.contains(payload), "{command}");
        let (said, sent): (Value, Value) =
            (serde_json::from_str(&body).unwrap(), serde_json::from_slice(&got.body).unwrap());
        assert_eq!(said, sent, "{command}");
        assert!(!command.contains("hunter2"), "{command}");
    }
}
