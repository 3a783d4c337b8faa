//! What is around every page: where one is, who one is, and how it is rendered.

use askama::Template;
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;

use super::super::access::{Viewer, Visitor, Who};
use super::super::refusal::{Refusal, page_response};
use super::super::theme::Theme;
use crate::config::admin::Role;

/// The pages that every page leads to.
const PLACES: [(&str, &str); 6] = [
    ("/", "Overview"),
    ("/events", "Events"),
    ("/dead-letters", "Dead letters"),
    ("/destinations", "Destinations"),
    ("/jobs", "Jobs"),
    ("/audit", "Audit"),
];

/// Somebody who looks at a page.
pub(super) struct Looking {
    who: Who,
    csrf: String,
    theme: Theme,
    notice: Option<&'static str>,
}

impl<S: Send + Sync> FromRequestParts<S> for Looking {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let Viewer(who) = Viewer::from_request_parts(parts, state).await?;
        let visitor = parts.extensions.get::<Visitor>();
        let csrf = visitor.and_then(|visitor| visitor.csrf.clone()).unwrap_or_default();
        let did = parts.uri.query().into_iter().flat_map(|query| query.split('&'));
        let notice = did.filter_map(|part| part.strip_prefix("did=")).find_map(notice);
        Ok(Self { who, csrf, theme: Theme::of(&parts.headers), notice })
    }
}

/// What was just done. Only words of our own are shown, whatever a link says.
fn notice(did: &str) -> Option<&'static str> {
    Some(match did {
        "retry" => "It is due now, and will be sent in a moment.",
        "fail" => "It is marked failed.",
        "replay" => "This is the replay: a new event, due now.",
        "pause" => "The destination is paused. Its events wait.",
        "resume" => "The destination is resumed. What waited is sent.",
        "start" => "The job has begun.",
        "cancel" => "The job ends before its next batch.",
        _ => return None,
    })
}

/// What the frame's template shows.
pub(super) struct Frame {
    pub(super) here: &'static str,
    pub(super) who: String,
    pub(super) role: &'static str,
    /// Empty without a session.
    pub(super) csrf: String,
    /// May act.
    pub(super) acts: bool,
    pub(super) theme: Theme,
    pub(super) notice: Option<&'static str>,
    /// Seconds after which the page is looked at anew; 0 for never.
    pub(super) refresh: u32,
    /// What was searched for.
    pub(super) searched: String,
}

impl Looking {
    /// The frame of a page, by its name in the navigation.
    pub(super) fn frame(self, here: &'static str, refresh: u32) -> Frame {
        Frame {
            here,
            role: self.who.role.as_str(),
            acts: self.who.role == Role::Operator,
            who: self.who.name,
            csrf: self.csrf,
            theme: self.theme,
            notice: self.notice,
            refresh,
            searched: String::new(),
        }
    }
}

impl Frame {
    pub(super) fn places(&self) -> &'static [(&'static str, &'static str)] {
        &PLACES
    }

    pub(super) fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }
}

/// A page that was found.
pub(super) fn shown(page: &impl Template) -> Response {
    page_response(StatusCode::OK, page)
}

/// What a form has done is looked at on a page of its own, so that nothing is done again by reloading.
pub(super) fn then(place: &str) -> Response {
    (StatusCode::SEE_OTHER, [(LOCATION, place)]).into_response()
}

/// The parameters of a page's address.
pub(super) struct Asked<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let query = Query::from_request_parts(parts, state).await;
        let Query(asked) =
            query.map_err(|error| bad(format!("the address is not understood: {}", error.body_text())))?;
        Ok(Self(asked))
    }
}

/// A part of a page's address.
pub(super) struct At<T>(pub(super) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for At<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let path = Path::from_request_parts(parts, state).await;
        let nowhere = |_| Refusal::new(StatusCode::NOT_FOUND, "there is nothing here; the address may be mistyped");
        path.map(|Path(at)| Self(at)).map_err(nowhere)
    }
}

pub(super) fn bad(what: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, what.into())
}
