use super::*;
use crate::store::OnFailed;

const LIMIT: usize = 100;
const MS: Duration = Duration::from_millis(1);

/// A place is a number of milliseconds.
impl Place for i64 {
    fn earlier_by(&self, span: TimeDelta) -> Option<Self> {
        Some(self - span.num_milliseconds())
    }
}

fn ask(order: Order) -> Ask<'static> {
    Ask { order, whole: false, ..Ask::new(LIMIT, usize::MAX, Duration::from_secs(60)) }
}

/// Claims without an order on a walk, whose pages are made up.
struct Claims {
    walk: Walk<i64>,
    now: Instant,
}

impl Claims {
    fn new() -> Self {
        Self { walk: Walk::default(), now: Instant::now() }
    }

    fn step_with(&mut self, trails: bool) -> (Steps, Step<i64>) {
        let mut steps = self.walk.begin(&ask(Order::None), self.now);
        (steps.trails, steps.locks) = (trails, trails);
        let step = self.walk.next(&mut steps, self.now).unwrap();
        (steps, step)
    }

    /// Returns where a claim would begin now.
    fn step(&mut self) -> (Leg, Option<i64>) {
        let (_, step) = self.step_with(true);
        (step.leg, step.after)
    }

    /// Claims this many events up to this place, which takes some time.
    fn claim(&mut self, taken: usize, until: Option<i64>, took: Duration) -> Leg {
        let (mut steps, step) = self.step_with(true);
        self.now += took;
        self.walk.saw(&mut steps, &step, Page::taken(taken, until, &step), self.now);
        step.leg
    }
}

#[test]
fn a_backlog_is_read_on_where_the_last_claim_ended() {
    let mut claims = Claims::new();
    assert_eq!(claims.claim(LIMIT, Some(100), MS), Leg::Rescan);
    assert_eq!(claims.step(), (Leg::Tail, Some(100)));
}

#[test]
fn only_a_rescan_is_by_lease_while_locks_are_allowed() {
    let mut claims = Claims::new();
    assert!(!claims.step_with(true).1.locks);
    claims.claim(LIMIT, Some(100), MS);
    assert!(claims.step_with(true).1.locks);
}

#[test]
fn without_a_backlog_it_trails_as_often_as_that_is_cheap() {
    let mut claims = Claims::new();
    claims.claim(1, Some(100_000), MS);
    assert_eq!(claims.step(), (Leg::Trail, Some(95_000)));
    claims.claim(0, None, 20 * MS);
    claims.now += 79 * MS;
    assert_eq!(claims.step(), (Leg::Tail, Some(100_000)));
    claims.now += MS;
    assert_eq!(claims.step(), (Leg::Trail, Some(95_000)));
}

#[test]
fn without_trailing_it_begins_at_the_beginning_unless_there_is_a_backlog() {
    let mut claims = Claims::new();
    claims.claim(LIMIT, Some(100_000), MS);
    assert_eq!(claims.step_with(false).1.after, Some(100_000));
    claims.claim(1, Some(200_000), MS);
    assert_eq!(claims.step_with(false).1.after, None);
}

#[test]
fn every_second_or_less_often_it_begins_at_the_beginning() {
    let mut claims = Claims::new();
    claims.claim(LIMIT, Some(100), MS);
    claims.now += 999 * MS;
    assert_eq!(claims.step(), (Leg::Tail, Some(100)));
    claims.now += MS;
    assert_eq!(claims.step(), (Leg::Rescan, None));
    claims.claim(LIMIT, Some(200), 500 * MS);
    claims.now += 9_999 * MS;
    assert_eq!(claims.step(), (Leg::Tail, Some(200)));
    claims.now += MS;
    assert_eq!(claims.step(), (Leg::Rescan, None));
}

#[test]
fn however_long_a_rescan_took_the_next_is_made_within_half_a_minute() {
    let mut claims = Claims::new();
    claims.claim(LIMIT, Some(100), 60_000 * MS);
    claims.now += 29_999 * MS;
    assert_eq!(claims.step(), (Leg::Tail, Some(100)));
    claims.now += MS;
    assert_eq!(claims.step(), (Leg::Rescan, None));
}

#[test]
fn it_goes_back_to_events_that_were_given_back_or_too_large_to_be_claimed_with_the_others() {
    let mut claims = Claims::new();
    claims.claim(1, Some(100), MS);
    claims.walk.back_to(Some(50), claims.now);
    assert_eq!(claims.step(), (Leg::Tail, Some(50)));
    claims.walk.back_to(Some(70), claims.now);
    assert_eq!(claims.step(), (Leg::Tail, Some(50)));
    claims.walk.back_to(None, claims.now);
    assert_eq!(claims.step(), (Leg::Tail, None));
}

#[test]
fn a_claim_does_not_make_up_for_what_is_given_back_meanwhile() {
    for rescans in [false, true] {
        let mut claims = Claims::new();
        claims.claim(LIMIT, Some(100), MS);
        claims.now += if rescans { 2000 * MS } else { MS };
        let (mut steps, step) = claims.step_with(true);
        assert_eq!(step.leg == Leg::Rescan, rescans);
        claims.walk.back_to(Some(50), claims.now + MS);
        claims.now += 2 * MS;
        claims.walk.saw(&mut steps, &step, Page::taken(LIMIT, Some(200), &step), claims.now);
        assert_eq!(claims.step(), (Leg::Tail, Some(50)), "{rescans}");
    }
}

#[test]
fn what_was_found_below_is_read_on_from_there_only_if_there_is_more() {
    let mut claims = Claims::new();
    claims.claim(LIMIT, Some(100_000), MS);
    claims.now += 1000 * MS;
    assert_eq!(claims.claim(1, Some(50_000), MS), Leg::Rescan);
    assert_eq!(claims.step(), (Leg::Trail, Some(95_000)));
    claims.now += 1000 * MS;
    assert_eq!(claims.claim(LIMIT, Some(50_000), MS), Leg::Rescan);
    assert_eq!(claims.step(), (Leg::Tail, Some(50_000)));
}

#[test]
fn the_next_due_event_is_searched_for_where_a_claim_without_a_backlog_begins() {
    let mut claims = Claims::new();
    assert_eq!(claims.walk.due_after(true), None);
    claims.claim(LIMIT, Some(100_000), MS);
    assert_eq!(claims.walk.due_after(true), Some(95_000));
    assert_eq!(claims.walk.due_after(false), None);
}

#[test]
fn what_a_rescan_finds_and_does_not_take_is_read_again_by_lock() {
    let (mut walk, now) = (Walk::<i64>::default(), Instant::now());
    let mut steps = walk.begin(&ask(Order::Aggregate(OnFailed::Block)), now);
    (steps.trails, steps.locks) = (true, true);
    let step = walk.next(&mut steps, now).unwrap();
    assert_eq!(step.leg, Leg::Rescan);
    // Another relay holds the others.
    let page = Page { seen: LIMIT, free: LIMIT, taken: 60, until: Some(100), full: true };
    walk.saw(&mut steps, &step, page, now + MS);
    let mut steps = walk.begin(&ask(Order::Aggregate(OnFailed::Block)), now + MS);
    (steps.trails, steps.locks) = (true, true);
    let step = walk.next(&mut steps, now + MS).unwrap();
    assert_eq!((step.leg, step.after, step.locks), (Leg::Tail, None, true));
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Row {
    Blocked,
    Free,
    Gone,
}

/// Due events at the places from 0 on, one each minute. An ordered claim takes the free ones.
struct Table {
    walk: Walk<i64>,
    rows: Vec<Row>,
    now: Instant,
    limit: usize,
    trails: bool,
    /// The number of places that were looked at, and the number of pages.
    looked: usize,
    pages: usize,
}

const MINUTE: i64 = 60_000;

impl Table {
    fn new(blocked: usize, free: usize) -> Self {
        let rows = [vec![Row::Blocked; blocked], vec![Row::Free; free]].concat();
        Self { walk: Walk::default(), rows, now: Instant::now(), limit: LIMIT, trails: false, looked: 0, pages: 0 }
    }

    /// Returns the number of events that a claim takes.
    fn claim(&mut self, whole: bool) -> usize {
        let ask = Ask { whole, limit: self.limit, ..ask(Order::Aggregate(OnFailed::Block)) };
        let mut steps = self.walk.begin(&ask, self.now);
        steps.trails = self.trails;
        while let Some(step) = self.walk.next(&mut steps, self.now) {
            let from = step.after.map_or(0, |place| usize::try_from(place.div_euclid(MINUTE) + 1).unwrap());
            let there = (from..self.rows.len()).filter(|at| self.rows[*at] != Row::Gone);
            let seen: Vec<usize> = there.take(step.rows).collect();
            let free: Vec<usize> = seen.iter().copied().filter(|at| self.rows[*at] == Row::Free).collect();
            let taken = free.len().min(self.limit);
            self.pages += 1;
            self.looked += self.rows.len().min(seen.last().map_or(self.rows.len(), |last| last + 1)) - from;
            let until = seen.last().map(|last| i64::try_from(*last).unwrap() * MINUTE);
            let full = seen.len() >= step.rows;
            self.now += MS;
            self.walk.saw(&mut steps, &step, Page { seen: seen.len(), free: taken, taken, until, full }, self.now);
            if taken > 0 {
                free.iter().take(taken).for_each(|at| self.rows[*at] = Row::Gone);
                return taken;
            }
        }
        0
    }
}

#[test]
fn without_blocked_events_every_claim_begins_where_the_last_one_ended() {
    let mut table = Table::new(0, 1000);
    for _ in 0..10 {
        assert_eq!(table.claim(false), LIMIT);
    }
    assert_eq!(table.claim(false), 0);
    assert_eq!(table.looked, 1000, "nothing is looked at twice");
}

/// The places of events that are gone are looked at, too: their entries stay in the index while a transaction may see them.
#[test]
fn without_a_backlog_ordered_claims_do_not_look_at_what_is_gone_again() {
    let mut table = Table { trails: true, ..Table::new(0, 10_050) };
    while table.claim(false) > 0 {}
    table.looked = 0;
    for _ in 0..10 {
        table.rows.extend([Row::Free; 2]);
        assert_eq!(table.claim(false), 2);
    }
    assert!(table.looked < 100, "{} looked at", table.looked);
}

#[test]
fn few_blocked_events_are_looked_at_by_every_claim() {
    let mut table = Table { trails: true, ..Table::new(0, 1050) };
    while table.claim(false) > 0 {}
    table.rows.extend([Row::Blocked; 20]);
    let blocked = table.rows.len() - 20;
    for _ in 0..20 {
        table.rows.extend([Row::Free; 2]);
        assert_eq!(table.claim(false), 2);
    }
    table.rows[blocked] = Row::Free;
    assert_eq!(table.claim(false), 1);
}

#[test]
fn a_claim_finds_what_is_behind_many_blocked_events_and_does_not_look_at_them_again_at_once() {
    let mut table = Table::new(10_000, 50);
    assert_eq!(table.claim(false), 50);
    assert_eq!(table.looked, 10_050, "nothing is looked at twice");
    table.looked = 0;
    table.rows.extend([Row::Free; 50]);
    assert_eq!(table.claim(false), 50);
    assert!(table.looked < 1000, "{} looked at", table.looked);
}

/// The end rises over the first events, and then over many blocked ones.
fn blocked_after_a_backlog() -> Table {
    let mut table = Table { trails: true, ..Table::new(0, 250) };
    table.rows.extend([Row::Blocked; 5000]);
    for taken in [100, 100, 50, 0] {
        assert_eq!(table.claim(false), taken);
    }
    table
}

#[test]
fn what_was_blocked_for_a_moment_is_found_at_the_front() {
    let mut table = blocked_after_a_backlog();
    assert_eq!(table.walk.due_after(true), None, "all of them are searched for the next due event");
    table.rows[251] = Row::Free;
    table.now += FRONT.least;
    assert_eq!(table.claim(false), 1);
}

#[test]
fn what_was_left_is_read_again_sooner() {
    let mut table = blocked_after_a_backlog();
    let began = table.now;
    table.rows[4000] = Row::Free;
    table.now += RESCAN_LEFT.least;
    assert!((0..100).any(|_| table.claim(false) == 1));
    assert!(table.now - began < RESCAN.least);
}

#[test]
fn a_claim_of_few_events_reads_a_page_and_leaves_the_rest_to_the_next() {
    let mut table = Table { limit: 10, ..Table::new(0, 1000) };
    for claims in 1..10 {
        assert_eq!(table.claim(false), 10);
        assert!(table.rows[..claims * 10].iter().all(|row| *row == Row::Gone), "the first ones first");
        assert!(!table.walk.left);
    }
    assert_eq!((table.pages, table.looked), (9, (0..9).map(|claims| claims * 10 + LEAST_PAGE).sum()));
}

#[test]
fn a_claim_that_reads_everything_at_once_does_not_read_it_again() {
    let mut table = Table::new(0, 0);
    for claims in 1..3 {
        assert_eq!(table.claim(true), 0);
        assert_eq!(table.pages, claims);
    }
}

#[test]
fn what_becomes_free_under_the_end_is_found_by_a_rescan() {
    let mut table = Table::new(10_000, 0);
    assert_eq!(table.claim(false), 0);
    table.rows[5000] = Row::Free;
    assert_eq!(table.claim(false), 0, "not at once");
    table.now += Duration::from_secs(10);
    let claims = (0..20).position(|_| table.claim(false) == 1);
    assert!(claims.is_some(), "a few pages at a time");
}

#[test]
fn a_busy_tail_does_not_keep_a_rescan_from_being_made() {
    let mut table = Table::new(10_000, 0);
    assert_eq!(table.claim(false), 0);
    table.rows[5000] = Row::Free;
    for _ in 0..200 {
        table.now += Duration::from_millis(50);
        table.rows.extend([Row::Free; 10]);
        table.claim(false);
    }
    assert_eq!(table.rows[5000], Row::Gone);
}

#[test]
fn a_claim_of_the_whole_finds_it_at_once() {
    let mut table = Table::new(10_000, 0);
    assert_eq!(table.claim(true), 0);
    table.rows[5000] = Row::Free;
    assert_eq!(table.claim(true), 1);
}

#[test]
fn the_end_is_the_beginning_when_little_is_blocked() {
    let mut table = Table::new(500, 0);
    assert_eq!(table.claim(false), 0);
    assert!(table.walk.end.is_some());
    table.rows[..460].fill(Row::Gone);
    table.now += Duration::from_secs(10);
    table.claim(false);
    assert_eq!(table.walk.end, None);
}
