//! What a relay writes down of itself for people: minutes of its destinations, and how it finds them.

use chrono::{DateTime, DurationRound, TimeDelta, Utc};
use tokio::sync::Mutex;
use uuid::Uuid;

use super::Engine;
use crate::delivery::Verdict;
use crate::store::{LaneView, Minute, Told};

/// What cannot be written down for longer is forgotten.
const KEPT: TimeDelta = TimeDelta::hours(1);

/// What was told, and what is to be told.
#[derive(Default)]
pub(super) struct Figures {
    minutes: Vec<Minute>,
    lanes: Vec<LaneView>,
}

impl Figures {
    fn add(&mut self, news: Minute) {
        if news.is_empty() {
            return;
        }
        match self.minutes.iter_mut().find(|minute| minute.at == news.at && minute.destination == news.destination) {
            Some(minute) => minute.merge(&news),
            None => self.minutes.push(news),
        }
    }
}

impl Engine {
    /// Minutes are told as they are, in place of what was told of them before: so it does no harm to tell them twice.
    pub(super) async fn tell_figures(&self, relay: Uuid, figures: &Mutex<Figures>) {
        let mut figures = figures.lock().await;
        let now = minute_of(Utc::now());
        self.lanes.values().for_each(|lane| figures.add(lane.tally.take(now, &lane.name)));
        let lanes: Vec<LaneView> = self.lanes.values().map(|lane| lane.view()).collect();
        let news = if lanes == figures.lanes { &[][..] } else { &lanes };
        if figures.minutes.is_empty() && news.is_empty() {
            return;
        }
        match self.store.tell(Told { relay, minutes: &figures.minutes, lanes: news }).await {
            Ok(()) => {
                figures.lanes = lanes;
                // The one that is not over will be told again, with more.
                figures.minutes.retain(|minute| minute.at == now);
            }
            Err(error) => {
                tracing::warn!(%error, "the relay could not write its figures down");
                figures.minutes.retain(|minute| now - minute.at < KEPT);
            }
        }
    }

    /// Those that made an event a dead letter.
    pub(super) fn count_given_up(&self, verdict: &Verdict) {
        if let Some(last) = verdict.failures.last()
            && let Some(lane) = self.lanes.get(&last.destination)
        {
            lane.tally.gave_up();
        }
    }
}

fn minute_of(moment: DateTime<Utc>) -> DateTime<Utc> {
    moment.duration_trunc(TimeDelta::minutes(1)).unwrap_or(moment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_is_added_to_until_the_next_one_begins() {
        let at: DateTime<Utc> = "2026-03-01T08:15:00Z".parse().unwrap();
        assert_eq!(minute_of("2026-03-01T08:15:42.5Z".parse().unwrap()), at);
        let mut figures = Figures::default();
        let of = |at, delivered| Minute { delivered, ..Minute::new(at, "ledger") };
        figures.add(of(at, 2));
        figures.add(of(at, 0));
        figures.add(of(at, 3));
        figures.add(of(at + TimeDelta::minutes(1), 7));
        assert_eq!(figures.minutes, [of(at, 5), of(at + TimeDelta::minutes(1), 7)]);
    }
}
