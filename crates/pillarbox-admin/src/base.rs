//! The path that the router is mounted at. Handlers know paths below it only: axum removes the prefix from requests, the
//! guard adds it to redirects, and templates add it to links.

use std::fmt;
use std::sync::Arc;

use axum::extract::{NestedPath, Request};

/// A prefix like `/outbox`; empty at the root of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Base(Arc<str>);

impl Base {
    /// Returns the prefix without a slash at its end.
    pub(crate) fn new(prefix: &str) -> Self {
        let prefix = prefix.trim_matches('/');
        Self(if prefix.is_empty() { "".into() } else { format!("/{prefix}").into() })
    }

    /// Returns the prefix at which an axum router has nested this one.
    pub(crate) fn of(request: &Request) -> Self {
        request.extensions().get::<NestedPath>().map(|nested| Self::new(nested.as_str())).unwrap_or_default()
    }

    /// Returns the path for a browser. The overview is at the prefix itself: axum does not route a slash after it.
    pub(crate) fn path(&self, below: &str) -> String {
        match below.strip_prefix('/') {
            Some(rest) if !self.0.is_empty() && (rest.is_empty() || rest.starts_with(['?', '#'])) => {
                format!("{}{rest}", self.0)
            }
            _ => format!("{}{below}", self.0),
        }
    }

    /// Returns whether the router is at the root of its server.
    pub(crate) fn is_root(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Base;

    #[test]
    fn paths_get_the_prefix_and_the_overview_no_slash() {
        let (root, below) = (Base::new("/"), Base::new("/outbox/"));
        assert!(root.is_root() && !below.is_root());
        assert_eq!(["/", "/events?x=1"].map(|path| root.path(path)), ["/", "/events?x=1"]);
        assert_eq!(
            ["/", "/?did=x", "/events/7", "/events?x=1"].map(|path| below.path(path)),
            ["/outbox", "/outbox?did=x", "/outbox/events/7", "/outbox/events?x=1"]
        );
    }
}
