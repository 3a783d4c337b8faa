//! The pages for people, rendered here. What they show they have from the desk; every action is a form.

use askama::Template;
use axum::Router;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;

use super::access::{Viewer, Visitor};
use super::refusal::page_response;

pub(super) fn routes() -> Router {
    Router::new().route("/", get(overview))
}

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview<'a> {
    name: &'a str,
    role: &'a str,
    csrf: Option<&'a str>,
}

async fn overview(Viewer(who): Viewer, visitor: Visitor) -> Response {
    let page = Overview { name: &who.name, role: who.role.as_str(), csrf: visitor.csrf.as_deref() };
    page_response(StatusCode::OK, &page)
}
