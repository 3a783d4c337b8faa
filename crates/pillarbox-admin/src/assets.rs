//! The files of the pages, built into the program: no other host is needed.

use axum::Router;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// The path prefix of the files.
pub(crate) const ASSETS: &str = "/assets/";

pub(crate) fn routes() -> Router {
    Router::new()
        .route("/assets/admin.css", get(async || file(CSS, include_str!("../assets/admin.css"))))
        .route("/assets/live.js", get(async || file(SCRIPT, include_str!("../assets/live.js"))))
        .route("/assets/icon.svg", get(async || file(SVG, include_str!("../assets/icon.svg"))))
}

/// Returns a file. Browsers check it again after a while, so that a new version is seen soon.
fn file(kind: &'static str, text: &'static str) -> Response {
    ([(CONTENT_TYPE, kind), (CACHE_CONTROL, "max-age=300")], text).into_response()
}
