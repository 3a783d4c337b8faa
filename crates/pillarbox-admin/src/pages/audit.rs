//! `/audit`: the actions of users, with their times.

use std::sync::Arc;

use askama::Template;
use axum::extract::State as Using;
use axum::response::Response;
use chrono::Utc;
use serde::Deserialize;
use uuid::Uuid;

use super::frame::{Frame, Looking, shown};
use super::words::{self, When};
use crate::asked::Asked;
use crate::desk::Desk;
use crate::refusal::Refusal;

const PER_PAGE: usize = 100;
const REFRESH: u32 = 10;

#[derive(Deserialize)]
pub(super) struct AuditAsked {
    before: Option<i64>,
}

#[derive(Template)]
#[template(path = "audit.html")]
struct Audit {
    frame: Frame,
    lines: Vec<Line>,
    older: Option<i64>,
    newest: bool,
}

struct Line {
    id: i64,
    at: When,
    who: String,
    what: String,
    target: String,
    /// Whether the action was about one event.
    event: bool,
    events: String,
}

pub(super) async fn list(
    looking: Looking,
    Using(desk): Using<Arc<Desk>>,
    Asked(asked): Asked<AuditAsked>,
) -> Result<Response, Refusal> {
    let (found, now) = (desk.audit(asked.before, PER_PAGE).await?, Utc::now());
    let newest = asked.before.is_none();
    let lines = found.iter().map(|line| Line {
        id: line.id,
        at: When::new(line.done_at, now),
        who: line.who.clone(),
        what: line.what.clone(),
        event: line.target.parse::<Uuid>().is_ok(),
        target: line.target.clone(),
        events: line.events.map(words::number).unwrap_or_default(),
    });
    Ok(shown(&Audit {
        frame: looking.frame("Audit", if newest { REFRESH } else { 0 }),
        older: found.last().filter(|_| found.len() == PER_PAGE).map(|line| line.id),
        newest,
        lines: lines.collect(),
    }))
}
