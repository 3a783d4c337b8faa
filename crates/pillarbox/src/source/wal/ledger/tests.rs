//! The ledger against its promise: the position never passes an event that is neither delivered nor spilled.

use super::spill::{GATHER, SLOW};
use super::*;
use chrono::TimeDelta;

const NOW: fn() -> Instant = Instant::now;
const ALL: &str = "1000:1000:";

fn event(id: u128) -> Read {
    let event = StoredEvent { id: Uuid::from_u128(id), ..StoredEvent::for_tests("order.placed", "{}") };
    Read { event: Arc::new(event), unreadable: None }
}

fn ledger(transactions: &[(u64, &[u128])]) -> Ledger {
    let mut ledger = Ledger::new(Lsn(1));
    for (end, ids) in transactions {
        ledger.add(*end as u32, Lsn(*end), ids.iter().copied().map(event).collect(), false, NOW());
    }
    ledger.reveal(&Snapshot::read(ALL).unwrap());
    ledger
}

fn take(ledger: &mut Ledger, limit: usize) -> Vec<Ticket> {
    let token = Uuid::new_v4();
    let taken = ledger.take(limit, usize::MAX, token, Duration::from_secs(9), NOW());
    taken.iter().map(|event| Ticket { id: event.id, token }).collect()
}

fn retry(ledger: &mut Ledger, ticket: Ticket, now: Instant) {
    let event = Arc::clone(&ledger.events[&ticket.id].event);
    let change = Change::Retry { after: Duration::from_secs(60), error: "no".into() };
    ledger.decide(Settlement::of(event, ticket, Verdict::of(change, 1)), now);
}

#[test]
fn the_position_is_the_end_of_a_contiguous_prefix() {
    let mut ledger = ledger(&[(10, &[1]), (20, &[2, 3]), (30, &[]), (40, &[4])]);
    let held = take(&mut ledger, 10);
    assert_eq!(held.len(), 4);
    assert!(ledger.delivered(held[1]) && ledger.delivered(held[3]));
    assert_eq!(ledger.confirmed(), Lsn(1), "the first is open");
    assert!(ledger.delivered(held[0]));
    assert_eq!(ledger.confirmed(), Lsn(10), "half of the second is open");
    assert!(!ledger.delivered(held[0]), "once");
    assert!(ledger.delivered(held[2]));
    assert_eq!(ledger.confirmed(), Lsn(40));
    assert!(ledger.is_empty());
}

#[test]
fn headers_take_room_as_payloads_do() {
    let mut ledger = Ledger::new(Lsn(1));
    let header = ("traceparent".to_owned(), "x".repeat(MOST_BYTES));
    let event = StoredEvent { headers: [header].into_iter().collect(), ..StoredEvent::for_tests("order.placed", "{}") };
    ledger.add(7, Lsn(10), vec![Read { event: Arc::new(event), unreadable: None }], false, NOW());
    assert!(!ledger.has_room());
    ledger.reveal(&Snapshot::read(ALL).unwrap());
    let held = take(&mut ledger, 1);
    assert!(ledger.delivered(held[0]) && ledger.has_room());
}

#[test]
fn a_failed_spill_is_in_doubt_until_the_next_one() {
    let mut ledger = ledger(&[(10, &[1])]);
    assert!(!ledger.has_doubts());
    let batch = ledger.begin_spill(Which::Everything, NOW()).unwrap();
    ledger.abandon_spill(&batch);
    assert!(ledger.has_doubts());
    let batch = ledger.begin_spill(Which::Due, NOW()).unwrap();
    ledger.end_spill(&batch);
    assert!(!ledger.has_doubts());
}

#[test]
fn the_oldest_commit_is_that_of_the_first_open_event() {
    let mut ledger = Ledger::new(Lsn(1));
    let [first, second, third]: [DateTime<Utc>; 3] =
        [100, 200, 300].map(|second| DateTime::UNIX_EPOCH + TimeDelta::seconds(second));
    for (end, at, id) in [(10, first, 1), (20, second, 2)] {
        ledger.add(7, Lsn(end), vec![event(id)], false, NOW());
        ledger.committed(Lsn(end), at);
    }
    ledger.reveal(&Snapshot::read(ALL).unwrap());
    let held = take(&mut ledger, 10);
    assert_eq!(ledger.oldest_commit(), Some(first));
    ledger.delivered(held[1]);
    assert_eq!(ledger.oldest_commit(), Some(first), "the first is open");
    ledger.delivered(held[0]);
    assert_eq!(ledger.oldest_commit(), None);
    // A transaction without events is gone by then; its time is nobody's.
    ledger.add(7, Lsn(30), vec![], false, NOW());
    ledger.committed(Lsn(30), third);
    assert_eq!(ledger.oldest_commit(), None);
}

#[test]
fn a_keepalive_counts_only_when_everything_before_it_is_settled() {
    let mut ledger = Ledger::new(Lsn(1));
    ledger.alive(Lsn(5), NOW());
    assert_eq!(ledger.confirmed(), Lsn(5));
    ledger.add(7, Lsn(10), vec![event(1)], false, NOW());
    ledger.alive(Lsn(20), NOW());
    ledger.alive(Lsn(30), NOW());
    ledger.alive(Lsn(25), NOW());
    assert_eq!((ledger.confirmed(), ledger.read_until()), (Lsn(5), Lsn(30)));
    ledger.reveal(&Snapshot::read(ALL).unwrap());
    let held = take(&mut ledger, 1);
    ledger.delivered(held[0]);
    assert_eq!(ledger.confirmed(), Lsn(30));
}

#[test]
fn only_visible_transactions_are_handed_out_or_spilled_and_in_order() {
    let mut ledger = Ledger::new(Lsn(1));
    for xid in [7, 8, 9] {
        ledger.add(xid, Lsn(u64::from(xid) * 10), vec![event(u128::from(xid))], false, NOW());
    }
    assert!(take(&mut ledger, 9).is_empty());
    assert_eq!(ledger.reveal(&Snapshot::read("8:10:8").unwrap()), 1, "8 is in progress, and 9 waits for it");
    assert_eq!(take(&mut ledger, 9).len(), 1);
    assert!(ledger.hidden_since().is_some());
    let batch = ledger.begin_spill(Which::Everything, NOW()).unwrap();
    assert_eq!((batch.until, batch.events.len()), (Lsn(70), 1));
    ledger.end_spill(&batch);
    assert_eq!(ledger.reveal(&Snapshot::read(ALL).unwrap()), 2);
    assert_eq!(ledger.hidden_since(), None);
}

#[test]
fn a_spill_takes_what_is_open_before_it_with_its_lease() {
    let mut ledger = ledger(&[(10, &[1]), (20, &[2]), (30, &[3])]);
    let held = take(&mut ledger, 3);
    let now = NOW();
    retry(&mut ledger, held[1], now);
    assert!(ledger.begin_spill(Which::Due, now).is_none(), "it waits for others");
    let batch = ledger.begin_spill(Which::Due, now + GATHER).unwrap();
    let forms: Vec<bool> = batch.events.iter().map(|event| matches!(event.form, Form::Leased { .. })).collect();
    assert_eq!((batch.until, forms), (Lsn(20), vec![true, false]));
    assert!(ledger.is_spilling(held[0]) && !ledger.is_spilling(held[2]));
    assert_eq!(ledger.confirmed(), Lsn(1));
    ledger.end_spill(&batch);
    assert_eq!(ledger.confirmed(), Lsn(20));
    assert!(!ledger.holds(held[0]) && ledger.holds(held[2]));
}

#[test]
fn a_spill_that_failed_can_be_made_again() {
    let mut ledger = ledger(&[(10, &[1, 2])]);
    let held = take(&mut ledger, 1);
    retry(&mut ledger, held[0], NOW());
    let batch = ledger.begin_spill(Which::Settled, NOW()).unwrap();
    assert_eq!(batch.events.len(), 2, "the rest of its transaction, too");
    assert!(take(&mut ledger, 9).is_empty(), "what is being spilled is not handed out");
    ledger.abandon_spill(&batch);
    assert!(ledger.is_doubtful(held[0]));
    assert!(take(&mut ledger, 9).is_empty(), "it may have a row, which another relay sends");
    ledger.undecide(held[0]);
    let batch = ledger.begin_spill(Which::Due, NOW()).expect("the next spill finds out");
    assert_eq!(batch.events.len(), 2);
    ledger.end_spill(&batch);
    assert_eq!(ledger.confirmed(), Lsn(10));
}

#[test]
fn what_is_slow_or_urgent_is_spilled() {
    let mut ledger = ledger(&[(10, &[1])]);
    let now = NOW();
    assert!(ledger.begin_spill(Which::Due, now).is_none());
    let batch = ledger.begin_spill(Which::Due, now + SLOW * 2).unwrap();
    assert!(batch.events[0].form.is_due());
    ledger.end_spill(&batch);
    ledger.add(7, Lsn(20), vec![event(2)], true, now);
    assert_eq!(ledger.reveal(&Snapshot::read(ALL).unwrap()), 0, "it is not handed out");
    assert_eq!(ledger.begin_spill(Which::Due, now).unwrap().until, Lsn(20));
}

#[test]
fn an_event_that_was_given_back_is_spilled_as_due() {
    let mut ledger = ledger(&[(10, &[1])]);
    let held = take(&mut ledger, 1);
    ledger.give_back(Ticket { token: Uuid::nil(), ..held[0] }, NOW());
    assert!(ledger.begin_spill(Which::Settled, NOW()).is_none(), "another's ticket");
    ledger.give_back(held[0], NOW());
    assert!(ledger.begin_spill(Which::Settled, NOW()).unwrap().events[0].form.is_due());
}

#[test]
fn an_id_that_is_there_already_is_one_event() {
    let mut ledger = Ledger::new(Lsn(1));
    assert_eq!(ledger.add(1, Lsn(10), vec![event(1), event(1), event(2)], false, NOW()), 1);
    ledger.reveal(&Snapshot::read(ALL).unwrap());
    for ticket in take(&mut ledger, 9) {
        ledger.delivered(ticket);
    }
    assert_eq!(ledger.confirmed(), Lsn(10));
}

proptest::proptest! {
    /// Whatever is read, handed out, delivered, retried and spilled, in any order: the position stays below every open event, and
    /// in the end it reaches the last transaction.
    #[test]
    fn the_position_never_passes_an_open_event(steps in proptest::collection::vec((0_u8..7, 0_usize..8), 1..120)) {
        let mut ledger = Ledger::new(Lsn(0));
        let (mut next_id, mut end) = (0_u128, 0_u64);
        let mut open: HashMap<Uuid, u64> = HashMap::new();
        let mut held: Vec<Ticket> = Vec::new();
        for (step, size) in steps {
            let now = NOW();
            match step {
                0 => {
                    end += 10;
                    let events: Vec<Read> = (0..size as u128).map(|place| event(next_id + place)).collect();
                    open.extend(events.iter().map(|read| (read.event.id, end)));
                    next_id += size as u128;
                    ledger.add(u32::try_from(end).unwrap(), Lsn(end), events, false, now);
                }
                1 => { ledger.reveal(&Snapshot::read(&format!("{end}:{end}:")).unwrap()); }
                2 => held.extend(take(&mut ledger, size)),
                3 if !held.is_empty() => {
                    let ticket = held.remove(size % held.len());
                    if ledger.delivered(ticket) { open.remove(&ticket.id); }
                }
                4 if !held.is_empty() => {
                    let ticket = held[size % held.len()];
                    if ledger.holds(ticket) { retry(&mut ledger, ticket, now); }
                }
                5 => if let Some(batch) = ledger.begin_spill(if size < 4 { Which::Settled } else { Which::Everything }, now) {
                    if size % 4 == 0 {
                        ledger.abandon_spill(&batch);
                    } else {
                        for id in &batch.ids { open.remove(id); }
                        ledger.end_spill(&batch);
                    }
                },
                6 => { end += 1; ledger.alive(Lsn(end), now); }
                _ => {}
            }
            let lowest = open.values().min().copied().unwrap_or(u64::MAX);
            proptest::prop_assert!(ledger.confirmed().0 < lowest, "{} {lowest}", ledger.confirmed());
            proptest::prop_assert_eq!(ledger.events.len(), open.len());
        }
        ledger.reveal(&Snapshot::read("4000000:4000000:").unwrap());
        if let Some(batch) = ledger.begin_spill(Which::Everything, NOW()) {
            ledger.end_spill(&batch);
        }
        proptest::prop_assert!(ledger.is_empty());
        proptest::prop_assert_eq!(ledger.confirmed(), Lsn(end));
        proptest::prop_assert_eq!(ledger.bytes, 0);
    }
}
