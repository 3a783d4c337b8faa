//! What a relay writes down of itself for people: minutes of its destinations, and how it finds them.

use chrono::{DateTime, DurationRound, TimeDelta, Utc};
use tokio::sync::Mutex;
use uuid::Uuid;

use super::Engine;
use crate::delivery::Verdict;
use crate::event::Status;
use crate::store::{LaneView, Minute, Told};

/// What cannot be written down for longer is forgotten.
const KEPT: TimeDelta = TimeDelta::hours(1);
/// What was told is remembered for so long.
const REMEMBERED: TimeDelta = TimeDelta::minutes(5);

/// What was told, and what is to be told.
#[derive(Default)]
pub(super) struct Figures {
    /// The latest, and whether they are to be told. A clock that is set back finds them again.
    minutes: Vec<(Minute, bool)>,
    lanes: Vec<LaneView>,
}

impl Figures {
    fn add(&mut self, news: Minute) {
        if news.is_empty() {
            return;
        }
        let same = |minute: &Minute| minute.at == news.at && minute.destination == news.destination;
        match self.minutes.iter_mut().find(|(minute, _)| same(minute)) {
            Some((minute, is_news)) => {
                minute.merge(&news);
                *is_news = true;
            }
            None => self.minutes.push((news, true)),
        }
    }

    fn news(&self) -> Vec<Minute> {
        self.minutes.iter().filter(|(_, is_news)| *is_news).map(|(minute, _)| minute.clone()).collect()
    }
}

impl Engine {
    /// Minutes are told as they are, in place of what was told of them before: so it does no harm to tell them twice.
    pub(super) async fn tell_figures(&self, relay: Uuid, figures: &Mutex<Figures>) {
        let mut figures = figures.lock().await;
        let now = minute_of(Utc::now());
        self.lanes.values().for_each(|lane| figures.add(lane.tally.take(now, &lane.name)));
        let lanes: Vec<LaneView> = self.lanes.values().map(|lane| lane.view()).collect();
        let changed = if lanes == figures.lanes { &[][..] } else { &lanes };
        let minutes = figures.news();
        if minutes.is_empty() && changed.is_empty() {
            return;
        }
        match self.store.tell(Told { relay, minutes: &minutes, lanes: changed }).await {
            Ok(()) => {
                figures.lanes = lanes;
                figures.minutes.iter_mut().for_each(|(_, is_news)| *is_news = false);
                figures.minutes.retain(|(minute, _)| now - minute.at < REMEMBERED);
            }
            Err(error) => {
                tracing::warn!(%error, "the relay could not write its figures down");
                figures.minutes.retain(|(minute, _)| now - minute.at < KEPT);
            }
        }
    }

    /// Those that made an event a dead letter.
    pub(super) fn count_given_up(&self, verdict: &Verdict) {
        let failed = verdict.deliveries.iter().filter(|delivery| delivery.status == Status::Failed);
        let mut names: Vec<&str> = failed.map(|delivery| delivery.destination.as_str()).collect();
        if names.is_empty() {
            names.extend(verdict.failures.last().map(|attempt| attempt.destination.as_str()));
        }
        names.iter().filter_map(|name| self.lanes.get(*name)).for_each(|lane| lane.tally.gave_up());
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
        let next = at + TimeDelta::minutes(1);
        assert_eq!(figures.news(), [of(at, 5), of(next, 7)]);
        figures.minutes.iter_mut().for_each(|(_, is_news)| *is_news = false);
        assert_eq!(figures.news(), []);
        // The clock was set back.
        figures.add(of(at, 1));
        assert_eq!(figures.news(), [of(at, 6)]);
    }
}
