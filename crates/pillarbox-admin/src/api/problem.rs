//! Errors of the API: RFC 9457 problems, the same for each handler.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use pillarbox::{EmitError, StoreError};
use serde::Serialize;
use utoipa::openapi::response::Response;
use utoipa::openapi::{ContentBuilder, Ref, RefOr, ResponseBuilder};
use utoipa::{IntoResponses, ToSchema};

use crate::desk::DeskError;
use crate::refusal::Refusal;

pub(super) const KIND: &str = "application/problem+json";

/// Why a request failed, as RFC 9457 defines it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Problem {
    /// `about:blank`: the title describes the problem
    #[serde(rename = "type")]
    kind: &'static str,
    /// The title of the status
    title: &'static str,
    /// The HTTP status of the response
    status: u16,
    /// What is wrong, and what to do
    detail: String,
}

impl Problem {
    pub(super) fn new(status: StatusCode, detail: String) -> Self {
        let title = status.canonical_reason().unwrap_or("refused");
        Self { kind: "about:blank", title, status: status.as_u16(), detail }
    }

    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl From<DeskError> for Refusal {
    fn from(error: DeskError) -> Self {
        let status = match &error {
            DeskError::Unknown(_) => StatusCode::NOT_FOUND,
            DeskError::Refused(_) => StatusCode::UNPROCESSABLE_ENTITY,
            DeskError::Busy(_) => StatusCode::CONFLICT,
            DeskError::Store(StoreError::BadCursor(_)) => StatusCode::BAD_REQUEST,
            DeskError::Store(StoreError::Emit(EmitError::Invalid(_))) => StatusCode::UNPROCESSABLE_ENTITY,
            DeskError::Store(StoreError::Emit(EmitError::Duplicate { event_type, idempotency_key })) => {
                let detail = format!(
                    "an event {event_type:?} with the idempotency key {idempotency_key:?} exists already; if it may \
                     happen more than once, set repeatable or another idempotency_key; to ignore duplicates, set once"
                );
                return Self::new(StatusCode::CONFLICT, detail);
            }
            DeskError::Store(StoreError::Connect { .. }) => StatusCode::SERVICE_UNAVAILABLE,
            DeskError::Store(error) => {
                tracing::error!(%error, "admin request failed");
                StatusCode::INTERNAL_SERVER_ERROR
            }
        };
        Self::new(status, error.to_string())
    }
}

/// The error responses of every read.
pub(super) struct Unread;

impl IntoResponses for Unread {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        problems(&[
            ("400", "The path or a parameter is not valid"),
            ("401", "The request is not authenticated"),
            ("404", "Not found"),
            ("500", "The database failed"),
            ("503", "The database is unavailable"),
        ])
    }
}

/// The error responses of every action.
pub(super) struct Undone;

impl IntoResponses for Undone {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let mut all = Unread::responses();
        all.extend(problems(&[
            ("403", "The user is not an operator"),
            ("409", "The event exists already or is in another state, too many jobs are running, or a test is"),
            ("413", "The body is too large"),
            ("415", "The body is not application/json"),
            ("422", "The body has a value that is not valid"),
        ]));
        all
    }
}

fn problems(all: &[(&str, &str)]) -> BTreeMap<String, RefOr<Response>> {
    let problem = |what: &str| {
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
        RefOr::T(ResponseBuilder::new().description(what).content(KIND, content).build())
    };
    all.iter().map(|(status, what)| ((*status).to_owned(), problem(what))).collect()
}
