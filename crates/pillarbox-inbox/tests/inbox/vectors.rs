//! The requests that the kits of all languages answer in the same way.

use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use axum::body::Body;
use axum::extract::Request;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue};
use pillarbox_inbox::{Event, HandlerError, Handling, Inbox, create_table};
use serde::Deserialize;
use sqlx::SqliteConnection;

#[derive(Deserialize)]
struct Vectors {
    now: f64,
    tolerance: u64,
    max_body: usize,
    keys: Vec<String>,
    requests: Vec<Vector>,
}

#[derive(Deserialize)]
struct Vector {
    name: String,
    headers: Vec<(String, String)>,
    body: Option<String>,
    body_base64: Option<String>,
    body_letters: Option<usize>,
    status: u16,
    handled: bool,
    now: Option<f64>,
}

impl Vector {
    fn body(&self) -> Vec<u8> {
        match (&self.body, &self.body_base64, self.body_letters) {
            (Some(text), ..) => text.clone().into_bytes(),
            (_, Some(encoded), _) => BASE64_STANDARD.decode(encoded).unwrap(),
            (.., letters) => format!("\"{}\"", "x".repeat(letters.unwrap())).into_bytes(),
        }
    }

    fn request(&self) -> Request {
        let mut request = http::Request::post("/events").body(Body::from(self.body())).unwrap();
        for (name, value) in &self.headers {
            let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
            request.headers_mut().append(name.parse::<HeaderName>().unwrap(), value);
        }
        request
    }

    fn id(&self) -> &str {
        &self.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("webhook-id")).unwrap().1
    }
}

/// Returns an inbox, and the headers and the body of a request that it accepts.
pub(crate) fn valid() -> (Inbox, HeaderMap, Vec<u8>) {
    let vectors: Vectors = serde_json::from_str(include_str!("../vectors.json")).unwrap();
    let now = UNIX_EPOCH + Duration::from_secs_f64(vectors.now);
    let inbox = Inbox::new("vectors", &vectors.keys).unwrap().clock(move || now);
    let request = vectors.requests.iter().find(|request| request.name == "valid").unwrap();
    (inbox, request.request().headers().clone(), request.body())
}

fn handle<'c>(event: &'c Event, connection: &'c mut SqliteConnection) -> Handling<'c> {
    Box::pin(async move {
        sqlx::query("INSERT INTO handled (id) VALUES (?)").bind(event.id()).execute(&mut *connection).await?;
        let orders: serde_json::Value = event.json().unwrap_or_default();
        match orders["do"].as_str() {
            Some("fail") => Err("the handler was told to fail".into()),
            Some("never") => Err(HandlerError::never("the handler was told to")),
            Some("roll back") => {
                sqlx::query("ROLLBACK").execute(connection).await?;
                Ok(())
            }
            _ => Ok(()),
        }
    })
}

#[tokio::test]
async fn every_request_is_answered_as_expected() {
    let vectors: Vectors = serde_json::from_str(include_str!("../vectors.json")).unwrap();
    let place = crate::sqlite().await;
    create_table(&place.pool).await.unwrap();
    sqlx::query("CREATE TABLE handled (id TEXT)").execute(&place.pool).await.unwrap();
    let now = Arc::new(Mutex::new(vectors.now));
    let clock = Arc::clone(&now);
    let inbox = Inbox::new("vectors", &vectors.keys)
        .unwrap()
        .tolerance(Duration::from_secs(vectors.tolerance))
        .max_body(vectors.max_body)
        .clock(move || UNIX_EPOCH + Duration::from_secs_f64(*clock.lock().unwrap()));

    let mut expected = Vec::new();
    for vector in &vectors.requests {
        *now.lock().unwrap() = vector.now.unwrap_or(vectors.now);
        let answer = inbox.receive_request(&place.pool, vector.request(), handle).await;
        assert_eq!(answer.status(), vector.status, "{}: {}", vector.name, answer.text());
        if vector.handled {
            expected.push(vector.id().to_owned());
        }
    }
    expected.sort();
    for table in ["handled", "inbox_event"] {
        let statement = format!("SELECT id FROM {table} ORDER BY id");
        let found: Vec<String> =
            sqlx::query_scalar(sqlx::AssertSqlSafe(statement)).fetch_all(&place.pool).await.unwrap();
        assert_eq!(found, expected, "{table}");
    }
}
