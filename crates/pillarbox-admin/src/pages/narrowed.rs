//! A filter as text, for links and forms: an empty field is not set. A link carries the whole filter, and a form shows
//! again the text that was typed into it.

use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use pillarbox::store::State;
use serde::Deserialize;

use super::span::Span;
use crate::asked::{self, FilterAsked, bad};
use crate::desk::{EventFilter, ago};
use crate::refusal::{Refusal, in_query};

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Narrowed {
    pub(super) state: String,
    pub(super) event_type: String,
    pub(super) aggregate_type: String,
    pub(super) aggregate_id: String,
    pub(super) destination: String,
    pub(super) parked_on: String,
    pub(super) search: String,
    pub(super) since: String,
    pub(super) until: String,
    /// A year, a month, a day or an hour.
    pub(super) when: String,
    /// Failed within this number of hours.
    pub(super) hours: String,
    /// Failed at or after this time.
    pub(super) failed_since: String,
    /// `1` means only events with failed attempts.
    pub(super) had_failures: String,
}

impl Narrowed {
    pub(super) fn failed() -> Self {
        Self { state: State::Failed.as_str().to_owned(), ..Self::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the fields that are set.
    pub(super) fn pairs(&self) -> Vec<(&'static str, &str)> {
        let all = [
            ("state", &self.state),
            ("event_type", &self.event_type),
            ("aggregate_type", &self.aggregate_type),
            ("aggregate_id", &self.aggregate_id),
            ("destination", &self.destination),
            ("parked_on", &self.parked_on),
            ("search", &self.search),
            ("since", &self.since),
            ("until", &self.until),
            ("when", &self.when),
            ("hours", &self.hours),
            ("failed_since", &self.failed_since),
            ("had_failures", &self.had_failures),
        ];
        let filled = all.into_iter().map(|(name, text)| (name, text.trim()));
        filled.filter(|(_, text)| !text.is_empty()).collect()
    }

    /// Returns a link with this filter and more parameters.
    pub(super) fn link(&self, path: &str, more: &[(&str, &str)]) -> String {
        let mut text = path.to_owned();
        let more = more.iter().copied().filter(|(_, value)| !value.is_empty());
        for (place, (name, value)) in self.pairs().into_iter().chain(more).enumerate() {
            text.push(if place == 0 { '?' } else { '&' });
            text.push_str(&format!("{name}={}", in_query(value)));
        }
        text
    }

    pub(super) fn span(&self) -> Result<Option<Span>, Refusal> {
        match self.when.trim() {
            "" => Ok(None),
            text => match Span::parse(text) {
                Some(span) => Ok(Some(span)),
                None => {
                    Err(bad(format!("when is {text:?}, but must be a year, month, day or hour, like 2026-11-15T20")))
                }
            },
        }
    }

    /// Returns the window in hours, if there is one.
    pub(super) fn hours(&self) -> Result<Option<u32>, Refusal> {
        let text = self.hours.trim();
        if text.is_empty() {
            return Ok(None);
        }
        let hours = text.parse().map_err(|_| bad(format!("hours is {text:?}, but must be a number of hours")))?;
        asked::hours(hours).map(Some)
    }

    fn failed_since(&self) -> Result<Option<DateTime<Utc>>, Refusal> {
        let window = self.hours()?.map(|hours| ago(Duration::from_secs(3600 * u64::from(hours))));
        Ok(window.max(moment("failed_since", &self.failed_since)?))
    }

    /// Returns the same filter with its window as a start time, so that a job finds the events that its preview counted.
    pub(super) fn pinned(&self) -> Result<Self, Refusal> {
        let since = self.failed_since()?.map(|since| since.to_rfc3339_opts(SecondsFormat::Micros, true));
        Ok(Self { hours: String::new(), failed_since: since.unwrap_or_default(), ..self.clone() })
    }

    /// Returns the desk's filter.
    pub(super) fn filter(&self) -> Result<EventFilter, Refusal> {
        let text = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        let span = self.span()?.map(Span::range);
        let since = [moment("since", &self.since)?, span.map(|(since, _)| since)];
        let until = [moment("until", &self.until)?, span.map(|(_, until)| until)];
        let asked = FilterAsked {
            state: text(&self.state).map(|state| asked::state(&state)).transpose()?,
            event_type: text(&self.event_type),
            aggregate_type: text(&self.aggregate_type),
            aggregate_id: text(&self.aggregate_id),
            parked_on: text(&self.parked_on),
            destination: text(&self.destination),
            search: text(&self.search),
            since: since.into_iter().flatten().max(),
            until: until.into_iter().flatten().min(),
            failed_since: self.failed_since()?,
            had_failures: flag("had_failures", &self.had_failures)?,
        };
        asked.filter()
    }
}

/// Reads a field that is `1` or empty.
pub(super) fn flag(name: &str, text: &str) -> Result<bool, Refusal> {
    match text.trim() {
        "" => Ok(false),
        "1" => Ok(true),
        other => Err(bad(format!("{name} is {other:?}, but must be 1, or left out"))),
    }
}

/// Reads a time; `None` for an empty field.
fn moment(name: &str, text: &str) -> Result<Option<DateTime<Utc>>, Refusal> {
    Some(text.trim()).filter(|text| !text.is_empty()).map(|text| asked::moment(name, text)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_carries_the_filter_and_nothing_else() {
        let narrowed = Narrowed { search: "a&b=c \"ü".to_owned(), ..Narrowed::failed() };
        let link = narrowed.link("/events", &[("cursor", "x-_"), ("oldest_first", "")]);
        assert_eq!(link, "/events?state=failed&search=a%26b%3Dc%20%22%C3%BC&cursor=x-_");
        assert_eq!(Narrowed::default().link("/events", &[]), "/events");
    }

    #[test]
    fn a_day_and_a_moment_narrow_together() {
        let of = |since: &str, when: &str| {
            let narrowed = Narrowed { since: since.to_owned(), when: when.to_owned(), ..Narrowed::default() };
            narrowed.filter().map(|filter| [filter.since, filter.until].map(|at| at.map(|at| at.to_rfc3339())))
        };
        let at = |text: &str| Some(format!("{text}:00+00:00"));
        assert_eq!(of("2026-11-15T20:30", "2026-11-15").unwrap(), [at("2026-11-15T20:30"), at("2026-11-16T00:00")]);
        assert_eq!(of("2026-11-15T21:30:00+01:00", "").unwrap(), [at("2026-11-15T20:30"), None]);
        assert!(of("yesterday", "").is_err() && of("", "2026-13").is_err());
    }

    #[test]
    fn a_window_is_pinned_to_its_beginning() {
        let hours = |text: &str| Narrowed { hours: text.to_owned(), ..Narrowed::failed() };
        let before = ago(Duration::from_secs(3600));
        let pinned = hours("1").pinned().unwrap();
        let since = pinned.filter().unwrap().failed_since.unwrap();
        assert!(before - chrono::TimeDelta::milliseconds(1) <= since && since <= ago(Duration::from_secs(3600)));
        assert_eq!(pinned.pinned().unwrap(), pinned);
        assert_eq!(hours("").pinned().unwrap(), Narrowed::failed());
        assert!(hours("0").filter().is_err() && hours("8761").filter().is_err() && hours("x").pinned().is_err());
    }

    fn read(query: &str) -> Result<Narrowed, String> {
        let uri = format!("/events?{query}").parse::<axum::http::Uri>().map_err(|error| error.to_string())?;
        let query = axum::extract::Query::<Narrowed>::try_from_uri(&uri).map_err(|error| error.to_string())?;
        Ok(query.0)
    }

    proptest::proptest! {
        #[test]
        fn any_query_is_read_or_refused(
            text in proptest::prelude::any::<String>(),
            fields in proptest::collection::vec(("state|since|until|when|hours|failed_since|search", "[0-9TZ:.+%a-z-]{0,24}"), 0..5),
        ) {
            let fields: Vec<String> = fields.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
            for query in [text, fields.join("&")] {
                let Ok(narrowed) = read(&query) else { continue };
                let _ = (narrowed.filter(), narrowed.span(), narrowed.pinned());
                // A link carries the same filter.
                let link = narrowed.link("/events", &[]);
                let again = read(link.split_once('?').map_or("", |(_, query)| query)).unwrap();
                proptest::prop_assert_eq!(again.pairs(), narrowed.pairs());
            }
        }

        #[test]
        fn any_cursor_is_read_or_refused(text in proptest::prelude::any::<String>(), inner in "[iwfdpx] [0-9-]{0,20} [0-9-]{0,20}( [a-zü ]{0,5})?") {
            use base64::Engine as _;
            let encoded = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(inner);
            for text in [text, encoded] {
                if let Ok(cursor) = text.parse::<pillarbox::store::Cursor>() {
                    proptest::prop_assert_eq!(cursor.to_string().parse(), Ok(cursor));
                }
            }
        }
    }
}
