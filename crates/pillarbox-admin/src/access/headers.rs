//! The security headers of every response, and the check of a request's origin.

use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, ORIGIN, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use crate::refusal::Refusal;

/// The content security policy: only files that this program serves, and nothing inline.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
const ALWAYS: [(HeaderName, &str); 6] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

pub(super) fn secure(headers: &mut HeaderMap) {
    for (name, value) in ALWAYS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}

/// Checks that a request that acts comes from our own pages, or from no page at all.
pub(super) fn check_origin(headers: &HeaderMap, host: &str) -> Result<(), Refusal> {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let ours = match text(HeaderName::from_static("sec-fetch-site")) {
        // Only the browser sets this header, a page cannot. It stays correct when a proxy changes the Host header.
        Some(site) => matches!(site, "same-origin" | "none"),
        None => text(ORIGIN)
            .is_none_or(|origin| origin.split_once("://").is_some_and(|(_, origin)| origin.eq_ignore_ascii_case(host))),
    };
    if ours {
        return Ok(());
    }
    Err(Refusal::new(
        StatusCode::FORBIDDEN,
        "the request comes from another site, or through a proxy that does not pass the Host header on, so nothing \
         was changed",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comes(headers: &[(&'static str, &str)]) -> bool {
        let pair = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        };
        check_origin(&headers.iter().map(pair).collect(), "localhost:8800").is_ok()
    }

    #[test]
    fn only_our_own_pages_act() {
        assert!(comes(&[]));
        assert!(comes(&[("origin", "http://localhost:8800")]));
        assert!(comes(&[("origin", "http://localhost:8800"), ("sec-fetch-site", "same-origin")]));
        assert!(comes(&[("origin", "null"), ("sec-fetch-site", "same-origin")]));
        assert!(comes(&[("origin", "https://outbox.example:8443"), ("sec-fetch-site", "same-origin")]));
        assert!(!comes(&[("origin", "null")]));
        assert!(!comes(&[("origin", "http://localhost:9999")]));
        assert!(!comes(&[("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")]));
        assert!(!comes(&[("sec-fetch-site", "same-site")]));
    }
}
