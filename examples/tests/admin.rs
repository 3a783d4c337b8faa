//! Runs the example of a service that mounts the admin: its own authentication decides who looks and who acts, and links
//! and redirects stay below the prefix.

#![allow(clippy::unwrap_used)]

use std::process::Stdio;
use std::time::Duration;

use pillarbox_testkit::wait_until;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

const PATIENCE: Duration = Duration::from_secs(30);

/// The running example.
struct Service {
    address: String,
    _process: Child,
}

struct Answer {
    status: u16,
    location: Option<String>,
    body: String,
}

impl Service {
    async fn start() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_admin_in_service"));
        command.env("LISTEN", "127.0.0.1:0").stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let line = lines.next_line().await.unwrap().unwrap();
        let address = line.strip_prefix("http://").and_then(|line| line.strip_suffix("/outbox")).unwrap().to_owned();
        Self { address, _process: process }
    }

    async fn send(&self, user: &str, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        let (host, length) = (&self.address, body.len());
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\ncookie: shop_session={user}\r\nconnection: close\r\n\
             content-length: {length}\r\n{headers}\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let location = head.lines().find_map(|line| line.strip_prefix("location: ")).map(str::to_owned);
        Answer { status, location, body: body.to_owned() }
    }

    async fn get(&self, user: &str, path: &str) -> Answer {
        self.send(user, "GET", path, "", "").await
    }

    async fn post(&self, user: &str, path: &str, headers: &str) -> Answer {
        let headers = format!("content-type: application/x-www-form-urlencoded\r\n{headers}");
        self.send(user, "POST", path, &headers, "").await
    }

    async fn wait_for_state(&self, event: &str, state: &str) {
        wait_until(&format!("the event is {state}"), PATIENCE, async || {
            let answer = self.get("bob", &format!("/outbox/api/v1/events/{event}")).await;
            serde_json::from_str::<Value>(&answer.body).unwrap()["event"]["state"] == state
        })
        .await;
    }
}

#[tokio::test]
async fn a_service_mounts_the_admin_behind_its_own_authentication() {
    let service = Service::start().await;
    let event = service.post("", "/orders", "").await.body;
    service.wait_for_state(&event, "failed").await;

    // A request that the shop does not know is refused, without a way to log-in pages that do not exist.
    for path in ["/outbox", "/outbox/events", "/outbox/api/v1/events"] {
        let refused = service.get("", path).await;
        assert_eq!((refused.status, refused.location), (401, None), "{path}: {}", refused.body);
    }
    assert_eq!(service.get("bob", "/outbox/login").await.status, 404);

    // A viewer looks, and does not act.
    let page = service.get("bob", "/outbox/events").await;
    assert!(page.status == 200 && page.body.contains(&event) && !page.body.contains("Log out"), "{}", page.body);
    let retry = format!("/outbox/events/{event}/retry");
    assert_eq!(service.post("bob", &retry, "sec-fetch-site: same-origin\r\n").await.status, 403);

    // An operator acts, from a page of the same origin only.
    assert_eq!(service.post("ann", &retry, "origin: https://evil.example\r\n").await.status, 403);
    assert_eq!(service.post("ann", &retry, "sec-fetch-site: cross-site\r\n").await.status, 403);
    service.wait_for_state(&event, "failed").await;
    let retried = service.post("ann", &retry, "sec-fetch-site: same-origin\r\n").await;
    assert_eq!((retried.status, retried.location), (303, Some(format!("/outbox/events/{event}?did=retry"))));
    service.wait_for_state(&event, "delivered").await;
    let audit = service.get("ann", "/outbox/audit").await.body;
    assert!(audit.contains("ann") && audit.contains("retry"), "{audit}");
}

#[tokio::test]
async fn links_and_redirects_stay_below_the_prefix() {
    let service = Service::start().await;
    let event = service.post("", "/orders", "").await.body;
    service.wait_for_state(&event, "failed").await;
    let pages = ["", "/events", "/dead-letters", "/destinations", "/jobs", "/audit", "/bulk?action=retry&state=failed"];
    for page in pages.map(|page| format!("/outbox{page}")).into_iter().chain([format!("/outbox/events/{event}")]) {
        let answer = service.get("ann", &page).await;
        assert_eq!(answer.status, 200, "{page}: {}", answer.body);
        let mut links = Vec::new();
        for attribute in ["href=\"", "src=\"", "action=\""] {
            links.extend(answer.body.split(attribute).skip(1).map(|rest| rest.split('"').next().unwrap().to_owned()));
        }
        assert!(links.len() > 10, "{page}: {links:?}");
        for link in links.iter().filter(|link| !link.starts_with('#')) {
            assert!(
                link == "/outbox" || link.starts_with("/outbox/") || link.starts_with("/outbox?"),
                "{page}: {link}"
            );
            let unescaped = link.replace("&#38;", "&").replace("&amp;", "&");
            let place = unescaped.split('#').next().unwrap();
            // The form of chosen events needs a choice.
            let is_form =
                answer.body.contains(&format!("method=\"post\" action=\"{link}\"")) || link.ends_with("/chosen");
            if !is_form {
                let answer = service.get("ann", place).await;
                assert!(matches!(answer.status, 200 | 303), "{page}: {place}: {}", answer.status);
            }
        }
    }
    let search = service.get("ann", &format!("/outbox/search?q={event}")).await;
    assert_eq!(search.location, Some(format!("/outbox/events/{event}")));
    let document: Value = serde_json::from_str(&service.get("ann", "/outbox/api/v1/openapi.json").await.body).unwrap();
    assert_eq!(document["servers"][0]["url"], "/outbox");
    assert_eq!(service.get("ann", "/outbox/nowhere").await.status, 404);
}
