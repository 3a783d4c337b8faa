//! The light or dark theme that the user chose. A cookie stores it, so that a page has the right colours at once.

use askama::filters::Safe;
use axum::http::HeaderMap;
use axum::http::header::COOKIE;

/// The theme in the cookie; without one, the system's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Theme {
    Auto,
    Light,
    Dark,
}

impl Theme {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
        let said = cookies.flat_map(|all| all.split(';')).find_map(|one| one.trim().strip_prefix("pillarbox_theme="));
        match said {
            Some("light") => Self::Light,
            Some("dark") => Self::Dark,
            _ => Self::Auto,
        }
    }

    /// Returns the attribute of the page's root element.
    pub(crate) fn attribute(self) -> Safe<&'static str> {
        Safe(match self {
            Self::Auto => "",
            Self::Light => " data-theme=\"light\"",
            Self::Dark => " data-theme=\"dark\"",
        })
    }
}
