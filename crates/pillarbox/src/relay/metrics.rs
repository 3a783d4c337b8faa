//! The metrics that a relay writes into the table for people: results per destination and minute, and the state of each lane.

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, DurationRound, TimeDelta, Utc};
use tokio::sync::Mutex;
use uuid::Uuid;

use super::{Engine, Phase};
use crate::delivery::Verdict;
use crate::event::Status;
use crate::store::{LaneView, Minute, Told};

/// Minutes that could not be written for this long are dropped.
const KEPT: TimeDelta = TimeDelta::hours(1);
/// How long written minutes are remembered.
const REMEMBERED: TimeDelta = TimeDelta::minutes(5);

/// One heartbeat writes up to this many changed rows.
const AT_ONCE: usize = 100;
/// More rows than that are spread over this many heartbeats, so that all are written within a minute. Otherwise a thousand
/// destinations of fifty relays would be twenty thousand rows a second.
const BEATS: usize = 12;

/// The metrics that were written, and those to be written.
#[derive(Default)]
pub(super) struct Metrics {
    /// The latest minutes. If the clock is set back, the minute is found here again.
    minutes: BTreeMap<(DateTime<Utc>, String), Known<Minute>>,
    lanes: HashMap<String, Known<LaneView>>,
    beats: u64,
}

/// A row as this relay last knew it.
struct Known<T> {
    row: T,
    /// Whether it must be written.
    is_news: bool,
    /// The heartbeat that last wrote it, counted from 1.
    told: u64,
}

impl Metrics {
    fn add(&mut self, news: Minute) {
        if news.is_empty() {
            return;
        }
        match self.minutes.get_mut(&(news.at, news.destination.clone())) {
            Some(known) => {
                known.row.merge(&news);
                known.is_news = true;
            }
            None => {
                let key = (news.at, news.destination.clone());
                self.minutes.insert(key, Known { row: news, is_news: true, told: 0 });
            }
        }
    }

    /// Returns the minutes to write. The least recently written come first.
    fn news(&self, everything: bool) -> Vec<Minute> {
        let mut news: Vec<&Known<Minute>> = self.minutes.values().filter(|known| known.is_news).collect();
        news.sort_by_key(|known| known.told);
        news.truncate(share(news.len(), everything));
        news.into_iter().map(|known| known.row.clone()).collect()
    }

    /// Returns the lanes that have changed. Changes of health come first, then the least recently written.
    fn changed(&self, lanes: Vec<LaneView>) -> Vec<LaneView> {
        let known = |lane: &LaneView| self.lanes.get(&lane.destination);
        let mut changed: Vec<LaneView> =
            lanes.into_iter().filter(|lane| known(lane).is_none_or(|known| known.row != *lane)).collect();
        changed.sort_by_cached_key(|lane| {
            known(lane).map_or((false, 0), |known| (is_as_well(&known.row, lane), known.told))
        });
        changed.truncate(share(changed.len(), false));
        changed
    }

    fn told(&mut self, minutes: &[Minute], lanes: Vec<LaneView>, now: DateTime<Utc>) {
        self.beats += 1;
        let told = self.beats;
        for minute in minutes {
            if let Some(known) = self.minutes.get_mut(&(minute.at, minute.destination.clone())) {
                (known.is_news, known.told) = (false, told);
            }
        }
        for lane in lanes {
            self.lanes.insert(lane.destination.clone(), Known { row: lane, is_news: false, told });
        }
        self.minutes.retain(|(at, _), known| known.is_news && now - *at < KEPT || now - *at < REMEMBERED);
    }
}

/// Returns how many of the changed rows are written now.
fn share(news: usize, everything: bool) -> usize {
    if everything { news } else { news.div_ceil(BEATS).max(AT_ONCE) }
}

/// Returns whether only counters differ; they change all the time.
fn is_as_well(known: &LaneView, lane: &LaneView) -> bool {
    let well = |lane: &LaneView| (lane.paused, lane.down, lane.limited, lane.last_error_at);
    well(known) == well(lane)
}

impl Engine {
    /// Writes the metrics. A minute replaces its earlier row, so that writing it twice does no harm.
    pub(super) async fn tell_metrics(&self, relay: Uuid, metrics: &Mutex<Metrics>) {
        let mut metrics = metrics.lock().await;
        let now = minute_of(Utc::now());
        let counted = self.lanes.values().flat_map(|lane| lane.tally.take(now, &lane.name));
        counted.for_each(|minute| metrics.add(minute));
        let changed = metrics.changed(self.lanes.values().map(|lane| lane.view()).collect());
        let minutes = metrics.news(self.phase.get() >= Phase::Stopping);
        if minutes.is_empty() && changed.is_empty() {
            return;
        }
        match self.store.tell(Told { relay, minutes: &minutes, lanes: &changed }).await {
            Ok(()) => metrics.told(&minutes, changed, now),
            Err(error) => {
                tracing::warn!(%error, "writing metrics failed");
                metrics.minutes.retain(|(at, _), _| now - *at < KEPT);
            }
        }
    }

    /// Counts a dead letter for each destination that caused it.
    pub(super) fn count_given_up(&self, verdict: &Verdict) {
        let failed = verdict.deliveries.iter().filter(|delivery| delivery.status == Status::Failed);
        let mut names: Vec<&str> = failed.map(|delivery| delivery.destination.as_str()).collect();
        if names.is_empty() {
            names.extend(verdict.failures.last().map(|attempt| attempt.destination.as_str()));
        }
        names.iter().filter_map(|name| self.lanes.get(*name)).for_each(|lane| lane.tally.gave_up());
    }
}

pub(super) fn minute_of(moment: DateTime<Utc>) -> DateTime<Utc> {
    moment.duration_trunc(TimeDelta::minutes(1)).unwrap_or(moment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_is_added_to_until_the_next_one_begins() {
        let at: DateTime<Utc> = "2026-03-01T08:15:00Z".parse().unwrap();
        assert_eq!(minute_of("2026-03-01T08:15:42.5Z".parse().unwrap()), at);
        let mut metrics = Metrics::default();
        let of = |at, delivered| Minute { delivered, ..Minute::new(at, "ledger") };
        metrics.add(of(at, 2));
        metrics.add(of(at, 0));
        metrics.add(of(at, 3));
        metrics.add(of(at + TimeDelta::minutes(1), 7));
        let next = at + TimeDelta::minutes(1);
        assert_eq!(metrics.news(false), [of(at, 5), of(next, 7)]);
        metrics.told(&metrics.news(false), Vec::new(), next);
        assert_eq!(metrics.news(false), []);
        // The clock was set back.
        metrics.add(of(at, 1));
        assert_eq!(metrics.news(false), [of(at, 6)]);
    }

    #[test]
    fn of_many_destinations_all_are_told_within_a_minute() {
        let at: DateTime<Utc> = "2026-03-01T08:15:00Z".parse().unwrap();
        let mut metrics = Metrics::default();
        let mut told = Vec::new();
        for beat in 0..BEATS {
            for number in 0..2400 {
                metrics.add(Minute { delivered: 1, ..Minute::new(at, format!("destination-{number}")) });
            }
            let news = metrics.news(false);
            assert!(news.len() <= 200, "{} in beat {beat}", news.len());
            metrics.told(&news, Vec::new(), at);
            told.extend(news.into_iter().map(|minute| minute.destination));
        }
        told.sort_unstable();
        told.dedup();
        assert_eq!(told.len(), 2400);
        assert_eq!(metrics.news(true).len(), 2200, "a relay that stops tells what is left");
    }

    #[test]
    fn only_lanes_that_changed_are_told_and_outages_first() {
        let lane = |number: usize, queued: u64, down: bool| LaneView {
            down,
            queued,
            ..LaneView::new(format!("destination-{number:04}"))
        };
        let mut metrics = Metrics::default();
        let first: Vec<LaneView> = (0..50).map(|number| lane(number, 0, false)).collect();
        assert_eq!(metrics.changed(first.clone()).len(), 50);
        metrics.told(&[], first.clone(), Utc::now());
        assert_eq!(metrics.changed(first.clone()), []);
        let mut next = first;
        next[7] = lane(7, 3, false);
        assert_eq!(metrics.changed(next.clone()), [lane(7, 3, false)]);
        // Of many busy lanes, the least recently written come first. A lane that is down is written at once.
        let busy: Vec<LaneView> = (0..1000).map(|number| lane(number, 1, false)).collect();
        metrics.told(&[], busy.clone(), Utc::now());
        let mut busier: Vec<LaneView> = (0..1000).map(|number| lane(number, 2, false)).collect();
        busier[999].down = true;
        let told = metrics.changed(busier.clone());
        assert_eq!((told.len(), &told[0]), (AT_ONCE, &busier[999]));
        metrics.told(&[], told.clone(), Utc::now());
        let more = metrics.changed(busier);
        assert!(more.iter().all(|lane| !told.contains(lane)));
    }
}
