//! Light or dark, as somebody chose; a cookie remembers it, so that a page comes in the right colours at once.

use askama::filters::Safe;
use axum::http::HeaderMap;
use axum::http::header::COOKIE;

/// What the cookie says; nothing means as the system has it.
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

    /// Of the page's outermost element.
    pub(crate) fn attribute(self) -> Safe<&'static str> {
        Safe(match self {
            Self::Auto => "",
            Self::Light => " data-theme=\"light\"",
            Self::Dark => " data-theme=\"dark\"",
        })
    }
}
