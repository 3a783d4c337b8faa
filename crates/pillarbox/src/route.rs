//! Route: chooses the destinations of an event. Pure: an event in, names out. Names decide, and conditions on the payload.

mod condition;

use self::condition::Tried;
pub use self::condition::{Condition, Subject};

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
    /// A condition on the payload; without one every payload matches.
    pub condition: Option<Condition>,
    /// The names of destinations. Several make a fan-out.
    pub to: Vec<String>,
}

impl Route {
    /// Returns a route for matching event types, about any aggregate.
    pub fn new<T: Into<String>>(events: impl Into<Pattern>, to: impl IntoIterator<Item = T>) -> Self {
        Self {
            events: events.into(),
            aggregates: Pattern::new("*"),
            condition: None,
            to: to.into_iter().map(Into::into).collect(),
        }
    }

    /// Adds a condition on the payload. An event for which it does not hold is tried on the next routes.
    #[must_use]
    pub fn when(mut self, condition: Condition) -> Self {
        self.condition = Some(condition);
        self
    }

    /// Returns whether the patterns match, whatever the payload.
    #[must_use]
    pub fn matches_kind(&self, event_type: &str, aggregate_type: &str) -> bool {
        self.events.matches(event_type) && self.aggregates.matches(aggregate_type)
    }
}

/// The result of trying one route on an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// The route matches.
    Matches,
    /// The pattern of event types does not match.
    OtherEvent,
    /// The pattern of aggregate types does not match.
    OtherAggregate,
    /// The condition does not hold for the payload.
    OtherPayload,
}

/// The destinations of all events of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfKind<'a> {
    /// All of them go to these destinations; `None` means unrouted.
    Same(Option<&'a [String]>),
    /// Conditions on the payload decide.
    ByPayload,
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

    /// Returns the destinations of an event, or `None` if it is unrouted.
    #[must_use]
    pub fn route<'a>(&self, event: impl Into<Subject<'a>>) -> Option<&[String]> {
        self.at(self.find(event))
    }

    /// Returns the position of the route that matches.
    pub(crate) fn find<'a>(&self, event: impl Into<Subject<'a>>) -> Option<usize> {
        let tried = Tried::new(event.into());
        self.0.iter().position(|route| fit(route, &tried) == Fit::Matches)
    }

    /// Returns the destinations of the route at a position that `find` returned.
    pub(crate) fn at(&self, position: Option<usize>) -> Option<&[String]> {
        self.0.get(position?).map(|route| route.to.as_slice())
    }

    /// Returns how each route fits an event, in order. The first that matches decides; those after it are tried as well.
    #[must_use]
    pub fn explain<'a>(&self, event: impl Into<Subject<'a>>) -> Vec<(&Route, Fit)> {
        let tried = Tried::new(event.into());
        self.0.iter().map(|route| (route, fit(route, &tried))).collect()
    }

    /// Returns the destinations of all events of a kind, if no condition on the payload decides.
    #[must_use]
    pub fn of_kind(&self, event_type: &str, aggregate_type: &str) -> OfKind<'_> {
        match self.0.iter().find(|route| route.matches_kind(event_type, aggregate_type)) {
            Some(Route { condition: Some(_), .. }) => OfKind::ByPayload,
            decided => OfKind::Same(decided.map(|route| route.to.as_slice())),
        }
    }

    /// Returns whether all events of a kind have a route, whatever their payload.
    pub(crate) fn route_all(&self, event_type: &str, aggregate_type: &str) -> bool {
        self.0.iter().any(|route| route.condition.is_none() && route.matches_kind(event_type, aggregate_type))
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

fn fit(route: &Route, tried: &Tried<'_>) -> Fit {
    if !route.events.matches(tried.subject.event_type) {
        Fit::OtherEvent
    } else if !route.aggregates.matches(tried.subject.aggregate_type) {
        Fit::OtherAggregate
    } else if route.condition.as_ref().is_some_and(|condition| !tried.meets(condition)) {
        Fit::OtherPayload
    } else {
        Fit::Matches
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::StoredEvent;

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
        let route =
            |event_type, aggregate_type| routes.route(&event(event_type, aggregate_type, "{}")).map(<[_]>::to_vec);
        assert_eq!(route("order.placed", "Order"), Some(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(route("paid", "Invoice"), Some(vec!["ledger".to_owned()]));
        assert_eq!(route("paid", "Order"), None);
    }

    fn event(event_type: &str, aggregate_type: &str, payload: &str) -> StoredEvent {
        let mut event = StoredEvent::for_tests(event_type, payload);
        event.aggregate_type = aggregate_type.to_owned();
        event
    }

    fn large() -> Condition {
        Condition::new("total > 100", |payload| payload["total"].as_f64().is_some_and(|total| total > 100.0))
    }

    /// Large orders are audited, other orders are billed, and large invoices are audited.
    fn by_payload() -> Routes {
        Routes::new(vec![
            Route::new("order.*", ["audit"]).when(large()),
            Route::new("order.placed", ["billing"]),
            Route::new("invoice.*", ["audit"]).when(large()),
        ])
    }

    #[test]
    fn an_event_whose_payload_does_not_fit_is_tried_on_the_next_route() {
        let routes = by_payload();
        let to =
            |event_type: &str, payload: &str| routes.route(&event(event_type, "Order", payload)).map(|to| to.join(","));
        assert_eq!(to("order.placed", r#"{"total": 120}"#).as_deref(), Some("audit"));
        assert_eq!(to("order.placed", r#"{"total": 20}"#).as_deref(), Some("billing"));
        assert_eq!(to("order.paid", r#"{"total": 20}"#), None);
        assert_eq!(to("invoice.sent", "{}"), None);
        assert_eq!(to("invoice.sent", r#"{"total": 120}"#).as_deref(), Some("audit"));
        let fits: Vec<Fit> =
            routes.explain(&event("order.placed", "Order", "{}")).into_iter().map(|(_, fit)| fit).collect();
        assert_eq!(fits, [Fit::OtherPayload, Fit::Matches, Fit::OtherEvent]);
    }

    #[test]
    fn no_condition_holds_for_what_cannot_be_parsed() {
        let any = Routes::new(vec![Route::new("*", ["a"]).when(Condition::new("any", |_| true))]);
        let mut opaque = event("t", "Order", r#""CCo=""#);
        assert!(any.route(&opaque).is_some());
        opaque.headers.insert(crate::event::PAYLOAD_CONTENT_TYPE.to_owned(), "a/b".to_owned());
        assert_eq!(any.route(&opaque), None, "opaque");
        let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
        assert_eq!(any.route(&event("t", "Order", &deep)), None);
        assert_eq!(any.route(&event("t", "Order", "1e999")), None);
    }

    #[test]
    fn a_kind_is_decided_by_its_names_or_by_each_payload() {
        let routes = by_payload();
        assert_eq!(routes.of_kind("order.placed", "Order"), OfKind::ByPayload);
        assert!(routes.route_all("order.placed", "Order"));
        assert_eq!(routes.of_kind("invoice.sent", "Invoice"), OfKind::ByPayload);
        assert!(!routes.route_all("invoice.sent", "Invoice"));
        assert_eq!(routes.of_kind("paid", "Order"), OfKind::Same(None));
        let plain = Routes::new(vec![Route::new("*", ["a"])]);
        assert_eq!(plain.of_kind("paid", "Order"), OfKind::Same(Some(&["a".to_owned()][..])));
    }
}
