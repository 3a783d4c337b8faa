//! Route: chooses the destinations of an event. Pure: names in, names out.

/// A pattern for names. `*` matches any number of characters, dots included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(String);

impl Pattern {
    /// Returns a pattern such as `order.*`, `*`, or a plain name.
    pub fn new(pattern: impl Into<String>) -> Self {
        Self(pattern.into())
    }

    /// Returns the pattern as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether the whole name matches.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let mut parts = self.0.split('*');
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = name.strip_prefix(first) else { return false };
        let Some(last) = parts.next_back() else { return rest.is_empty() };
        // The earliest match of each middle part leaves the most for the last one, so no backtracking is needed.
        for part in parts {
            let Some(at) = rest.find(part) else { return false };
            rest = &rest[at + part.len()..];
        }
        rest.ends_with(last)
    }
}

impl From<&str> for Pattern {
    fn from(pattern: &str) -> Self {
        Self::new(pattern)
    }
}

/// Sends events of these types, about these aggregates, to these destinations.
#[derive(Debug, Clone)]
pub struct Route {
    /// The pattern of event types.
    pub events: Pattern,
    /// The pattern of aggregate types.
    pub aggregates: Pattern,
    /// The names of destinations. Several make a fan-out.
    pub to: Vec<String>,
}

impl Route {
    /// Returns a route for matching event types, about any aggregate.
    pub fn new<T: Into<String>>(events: impl Into<Pattern>, to: impl IntoIterator<Item = T>) -> Self {
        Self { events: events.into(), aggregates: Pattern::new("*"), to: to.into_iter().map(Into::into).collect() }
    }
}

/// The ordered routes of a relay. The first match decides.
#[derive(Debug, Clone, Default)]
pub struct Routes(Vec<Route>);

impl Routes {
    /// Returns routes that are tried in this order.
    #[must_use]
    pub fn new(routes: Vec<Route>) -> Self {
        Self(routes)
    }

    /// Returns the destinations of such an event, or `None` if it is unrouted.
    #[must_use]
    pub fn route(&self, event_type: &str, aggregate_type: &str) -> Option<&[String]> {
        self.0
            .iter()
            .find(|route| route.events.matches(event_type) && route.aggregates.matches(aggregate_type))
            .map(|route| route.to.as_slice())
    }

    /// Returns the routes in order.
    pub fn iter(&self) -> impl Iterator<Item = &Route> {
        self.0.iter()
    }

    /// Adds a route after the others.
    pub fn push(&mut self, route: Route) {
        self.0.push(route);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        Pattern::new(pattern).matches(name)
    }

    #[test]
    fn a_star_crosses_dots_and_stands_anywhere() {
        assert!(matches("order.*", "order.placed"));
        assert!(matches("order.*", "order.line.added"));
        assert!(!matches("order.*", "order"));
        assert!(matches("*", ""));
        assert!(matches("*.failed", "payment.card.failed"));
        assert!(matches("a*b*c", "a-b-b-c"));
        assert!(!matches("a*b*c", "a-c-b"));
        assert!(!matches("ab*ba", "aba"));
        assert!(matches("order.placed", "order.placed"));
        assert!(!matches("order.placed", "order.placed2"));
        assert!(!matches("", "x"));
    }

    #[test]
    fn the_first_route_that_matches_decides() {
        let mut invoices = Route::new("*", ["ledger"]);
        invoices.aggregates = "Invoice".into();
        let routes = Routes::new(vec![Route::new("order.*", ["a", "b"]), invoices, Route::new("order.placed", ["c"])]);
        assert_eq!(routes.route("order.placed", "Order"), Some(&["a".to_owned(), "b".to_owned()][..]));
        assert_eq!(routes.route("paid", "Invoice"), Some(&["ledger".to_owned()][..]));
        assert_eq!(routes.route("paid", "Order"), None);
    }
}
