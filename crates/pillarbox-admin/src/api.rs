//! `/api/v1`: the desk as JSON, with the same reads and actions as the pages. Errors are RFC 9457 problems. The OpenAPI
//! document is generated from the handlers, so the two cannot differ. The API knows no store; [`crate::access::Viewer`] and
//! [`crate::access::Operator`] decide about permissions.

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, Extension};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::{from_fn, map_response};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use utoipa::openapi::Server;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use self::problem::Problem;
use crate::access::Viewer;
use crate::asked::{BODY_LIMIT, refuse_unknown};
use crate::base::Base;
use crate::desk::Desk;

mod acting;
mod emitting;
mod jobs;
mod parameters;
mod problem;
mod reading;
mod views;

const BASE: &str = "/api/v1";
const DOCUMENT: &str = "/api/v1/openapi.json";

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Pillarbox",
        description = "Inspect and control a transactional outbox. Reading needs the role viewer, actions need the \
            role operator.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")
    ),
    components(schemas(Problem)),
    modifiers(&Tokens),
    security(("token" = []))
)]
struct Document;

struct Tokens;

impl Modify for Tokens {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some("A user's token: `pillarbox admin make-token`"))
            .build();
        let components = openapi.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(scheme));
    }
}

/// Returns the routes of the API and of its document.
pub(crate) fn routes(desk: &Arc<Desk>) -> Router {
    let (routes, document) = described().with_state(Arc::clone(desk)).split_for_parts();
    let document = Arc::new(document);
    routes
        .route(DOCUMENT, get(async move |_: Viewer, Extension(base): Extension<Base>| served(&document, &base)))
        .layer(from_fn(refuse_unknown))
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .layer(map_response(not_so))
}

/// Returns the document. Below a prefix, the document names the prefix as its server.
fn served(document: &utoipa::openapi::OpenApi, base: &Base) -> Response {
    if base.is_root() {
        return Json(document).into_response();
    }
    let mut document = document.clone();
    document.servers = Some(vec![Server::new(base.to_string())]);
    Json(document).into_response()
}

fn described() -> OpenApiRouter<Arc<Desk>> {
    let all = OpenApiRouter::new()
        .routes(routes!(reading::overview))
        .routes(routes!(reading::minutes))
        .routes(routes!(reading::events, emitting::emit))
        .routes(routes!(reading::event))
        .routes(routes!(reading::neighbours))
        .routes(routes!(reading::payload))
        .routes(routes!(reading::find))
        .routes(routes!(reading::dead_letters))
        .routes(routes!(reading::destinations))
        .routes(routes!(reading::relays))
        .routes(routes!(reading::audit))
        .routes(routes!(acting::retry))
        .routes(routes!(acting::fail))
        .routes(routes!(acting::replay))
        .routes(routes!(acting::retry_one))
        .routes(routes!(acting::fail_one))
        .routes(routes!(acting::replay_one))
        .routes(routes!(acting::pause))
        .routes(routes!(acting::resume))
        .routes(routes!(acting::test))
        .routes(routes!(jobs::preview))
        .routes(routes!(jobs::all, jobs::start))
        .routes(routes!(jobs::one))
        .routes(routes!(jobs::cancel));
    OpenApiRouter::with_openapi(Document::openapi()).nest(BASE, all)
}

/// Turns axum's own refusal of a method into a problem. The header `Allow` lists the allowed methods.
async fn not_so(response: Response) -> Response {
    if response.status() != StatusCode::METHOD_NOT_ALLOWED {
        return response;
    }
    let detail = "this method is not allowed here; see the header Allow".to_owned();
    let problem = Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail);
    (StatusCode::METHOD_NOT_ALLOWED, [(CONTENT_TYPE, problem::KIND)], problem.to_json()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_is_of_openapi_3_1_and_every_operation_says_who_may() {
        let document = serde_json::to_value(described().into_openapi()).unwrap();
        assert_eq!(document["openapi"], "3.1.0");
        let paths = document["paths"].as_object().unwrap();
        assert!(paths.len() >= 20, "{paths:?}");
        for (path, methods) in paths {
            assert!(path.starts_with("/api/v1/"), "{path}");
            for (method, operation) in methods.as_object().unwrap() {
                let responses = operation["responses"].as_object().unwrap();
                for status in ["401", "500"] {
                    assert!(responses.contains_key(status), "{method} {path}: {status}");
                }
                assert_eq!(responses.contains_key("403"), method == "post", "{method} {path}");
                assert!(operation["summary"].is_string(), "{method} {path}");
            }
        }
    }
}
