//! The frame of every page: navigation, user and rendering.

use askama::Template;
use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};

use super::chosen::Tally;
use super::tested::Outcome;
use crate::access::{Identity, Role, Viewer, Visitor};
use crate::base::Base;
use crate::refusal::{Refusal, page_response};
use crate::theme::Theme;

/// The pages of the navigation.
const PLACES: [(&str, &str); 6] = [
    ("/", "Overview"),
    ("/events", "Events"),
    ("/dead-letters", "Dead letters"),
    ("/destinations", "Destinations"),
    ("/jobs", "Jobs"),
    ("/audit", "Audit"),
];

/// The user of a page, with the session's data.
pub(super) struct Looking {
    who: Identity,
    csrf: String,
    theme: Theme,
    notice: Option<Notice>,
    base: Base,
}

impl<S: Send + Sync> FromRequestParts<S> for Looking {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let Viewer(who) = Viewer::from_request_parts(parts, state).await?;
        let visitor = parts.extensions.get::<Visitor>();
        let csrf = visitor.and_then(|visitor| visitor.csrf.clone()).unwrap_or_default();
        let did = parts.uri.query().into_iter().flat_map(|query| query.split('&'));
        let notice = did.filter_map(|part| part.strip_prefix("did=")).find_map(notice);
        let base = parts.extensions.get::<Base>().cloned().unwrap_or_default();
        Ok(Self { who, csrf, theme: Theme::of(&parts.headers), notice, base })
    }
}

/// Returns the notice of the last action. Only our own texts are shown, whatever the link contains.
fn notice(did: &str) -> Option<Notice> {
    if let Some(tally) = Tally::parse(did) {
        return Some(Notice { class: "good", text: tally.notice() });
    }
    if let Some(outcome) = Outcome::parse(did) {
        let class = if outcome.is_success() { "good" } else { "bad" };
        return Some(Notice { class, text: outcome.notice() });
    }
    let text = match did {
        "retry" => "The event is due now.",
        "fail" => "The event is marked failed.",
        "replay" => "This is the replay: a new event, due now.",
        "pause" => "The destination is paused. Its events are parked.",
        "resume" => "The destination is resumed. Its parked events are due.",
        "start" => "The job has started.",
        "cancel" => "The job is cancelled. It ends before its next batch.",
        "parts" => "No event has exactly this id, key or aggregate. These contain the text.",
        _ => return None,
    };
    Some(Notice { class: "good", text: text.to_owned() })
}

/// The notice of the last action.
pub(super) struct Notice {
    /// The CSS class.
    pub(super) class: &'static str,
    pub(super) text: String,
}

/// The data of the frame's template.
pub(super) struct Frame {
    /// The prefix of every link.
    pub(super) base: Base,
    pub(super) here: &'static str,
    pub(super) who: String,
    pub(super) role: &'static str,
    /// The CSRF token; empty without a session.
    pub(super) csrf: String,
    /// Whether the user may act.
    pub(super) acts: bool,
    pub(super) theme: Theme,
    pub(super) notice: Option<Notice>,
    /// The seconds until the page refreshes; 0 means never.
    pub(super) refresh: u32,
    /// The text in the search field.
    pub(super) searched: String,
}

impl Looking {
    /// Returns the frame of a page, by its name in the navigation.
    pub(super) fn frame(self, here: &'static str, refresh: u32) -> Frame {
        Frame {
            base: self.base,
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

/// Returns a page with status 200.
pub(super) fn shown(page: &impl Template) -> Response {
    page_response(StatusCode::OK, page)
}

/// Redirects to the page that shows the result of a form, so that a reload does not act again. The guard adds the prefix
/// that the router is mounted at.
pub(crate) fn then(place: &str) -> Response {
    (StatusCode::SEE_OTHER, [(LOCATION, place)]).into_response()
}
