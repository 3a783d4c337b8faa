//! Lines of items, without a relay.

use super::*;

fn alone<T>(_: &VecDeque<T>) -> usize {
    1
}

fn start<T>(items: impl Into<VecDeque<T>>) -> Step<T> {
    Step::Start(items.into())
}

/// Adds an item whose `seq` is its own number.
fn enter(lines: &mut Lines<&'static str, u32>, key: &'static str, item: u32) -> Entered<u32> {
    lines.enter(key, item.into(), item)
}

/// Returns a line of one aggregate, in which the first item is in flight and `waiting` more wait.
fn line(waiting: u32) -> Lines<&'static str, u32> {
    let mut lines = Lines::default();
    assert_eq!(enter(&mut lines, "a", 0), Entered::First);
    for item in 1..=waiting {
        assert_eq!(enter(&mut lines, "a", item), Entered::Waits);
    }
    assert_eq!(lines.started(&"a", alone), start([0]));
    assert_eq!(lines.started(&"a", alone), Step::Nothing);
    lines
}

#[test]
fn each_goes_when_the_one_before_it_is_delivered() {
    let mut lines = line(2);
    for item in 1..=2 {
        assert_eq!(lines.ended(&"a", Outcome::Next, alone), start([item]));
        assert_eq!(lines.started(&"a", alone), Step::Nothing);
    }
    assert_eq!(lines.ended(&"a", Outcome::Next, alone), Step::Nothing);
    (0..=2).for_each(|item| lines.settled(&"a", item));
    assert!(lines.lines.is_empty(), "nothing is kept of an aggregate that has nothing under way");
}

#[test]
fn all_behind_one_that_is_not_delivered_are_given_back() {
    let mut lines = line(3);
    assert_eq!(lines.ended(&"a", Outcome::Next, alone), start([1]));
    assert_eq!(lines.started(&"a", alone), Step::Nothing);
    assert_eq!(lines.ended(&"a", Outcome::Broken, alone), Step::GiveBack([2, 3].into()));
    assert_eq!(enter(&mut lines, "a", 4), Entered::First, "the next claim begins anew");
}

#[test]
fn a_run_goes_at_once_and_the_next_one_after_all_of_it() {
    let mut lines = line(5);
    assert_eq!(lines.ended(&"a", Outcome::Next, |_| 3), start([1, 2, 3]));
    assert_eq!(lines.started(&"a", alone), Step::Nothing);
    assert_eq!(lines.ended(&"a", Outcome::Next, |_| 3), Step::Nothing);
    assert_eq!(lines.ended(&"a", Outcome::Next, |_| 3), Step::Nothing);
    assert_eq!(lines.ended(&"a", Outcome::Next, |_| 3), start([4, 5]), "no more than wait");
}

#[test]
fn a_run_that_breaks_in_the_middle_gives_back_what_is_behind_it() {
    let mut lines = line(4);
    assert_eq!(lines.ended(&"a", Outcome::Next, |_| 3), start([1, 2, 3]));
    assert_eq!(lines.started(&"a", alone), Step::Nothing);
    assert_eq!(lines.ended(&"a", Outcome::Next, alone), Step::Nothing);
    assert_eq!(lines.ended(&"a", Outcome::Broken, alone), Step::Nothing, "the third is still in flight");
    assert_eq!(lines.ended(&"a", Outcome::Next, alone), Step::GiveBack([4].into()));
}

#[test]
fn aggregates_do_not_wait_for_each_other() {
    let mut lines = line(1);
    assert_eq!(enter(&mut lines, "b", 7), Entered::First);
    assert_eq!(lines.started(&"b", alone), start([7]));
    assert_eq!(lines.started(&"b", alone), Step::Nothing);
    assert_eq!(lines.ended(&"b", Outcome::Broken, alone), Step::Nothing);
    assert_eq!(lines.ended(&"a", Outcome::Next, alone), start([1]));
}

#[test]
fn what_ends_while_it_is_started_is_followed_by_whoever_starts_it() {
    let mut lines = line(2);
    assert_eq!(lines.ended(&"a", Outcome::Next, alone), start([1]));
    assert_eq!(lines.ended(&"a", Outcome::Next, alone), Step::Nothing);
    assert_eq!(lines.started(&"a", alone), start([2]));
    assert_eq!(lines.ended(&"a", Outcome::Broken, alone), Step::Nothing);
    assert_eq!(lines.started(&"a", alone), Step::Nothing);
}

#[test]
fn those_that_wait_can_be_taken_while_the_first_is_under_way() {
    let mut lines = line(2);
    assert_eq!(lines.take(&"a"), [1, 2]);
    assert_eq!(enter(&mut lines, "a", 3), Entered::Waits, "the first is still under way");
    assert_eq!(lines.take_all(), [3]);
    assert_eq!(lines.ended(&"a", Outcome::Next, alone), Step::Nothing);
}

#[test]
fn a_claim_goes_behind_all_that_is_not_settled() {
    let mut lines = line(1);
    assert_eq!(lines.offer(alone), [0, 1]);
    assert_eq!(enter(&mut lines, "a", 2), Entered::Waits);
    lines.claimed();
    assert_eq!(lines.ended(&"a", Outcome::Next, alone), start([1]));
    assert_eq!(lines.started(&"a", alone), Step::Nothing);
    lines.settled(&"a", 0);
    assert_eq!(lines.offer(alone), [1, 2]);
    lines.claimed();
    assert_eq!(lines.ended(&"a", Outcome::Next, |_| 2), start([2]));
}

#[test]
fn what_was_delivered_and_is_not_settled_is_offered() {
    let mut lines = line(0);
    assert_eq!(lines.ended(&"a", Outcome::Next, alone), Step::Nothing);
    assert_eq!(lines.offer(alone), [0]);
    lines.settled(&"a", 0);
    assert_eq!(enter(&mut lines, "a", 1), Entered::First, "all before it is delivered");
    lines.claimed();
    assert_eq!(lines.started(&"a", alone), start([1]));
}

#[test]
fn a_line_that_breaks_during_a_claim_takes_nothing_of_it() {
    let mut lines = line(0);
    assert_eq!(lines.offer(alone), [0]);
    assert_eq!(lines.ended(&"a", Outcome::Broken, alone), Step::Nothing);
    lines.settled(&"a", 0);
    assert_eq!(enter(&mut lines, "a", 1), Entered::TooLate(1), "its predecessor is in the table again");
    lines.settled(&"a", 1);
    lines.claimed();
    assert!(lines.lines.is_empty());
    assert_eq!(enter(&mut lines, "a", 0), Entered::First, "the next claim begins anew");
}

#[test]
fn no_claim_goes_behind_a_broken_line() {
    let mut lines = line(2);
    assert_eq!(lines.ended(&"a", Outcome::Broken, alone), Step::GiveBack([1, 2].into()));
    assert_eq!(lines.offer(alone), [0_i64; 0], "1 and 2 are on their way back to the table");
    lines.settled(&"a", 0);
    assert_eq!(enter(&mut lines, "a", 0), Entered::First);
    lines.claimed();
    assert_eq!(lines.started(&"a", alone), start([0]));
    assert_eq!(lines.offer(alone), [0], "a claim must not pass 1 and 2");
}

#[test]
fn no_claim_goes_behind_items_that_were_taken_out() {
    let mut lines = line(1);
    assert_eq!(lines.offer(alone), [0, 1]);
    assert_eq!(lines.take(&"a"), [1]);
    assert_eq!(enter(&mut lines, "a", 2), Entered::TooLate(2));
    lines.claimed();
    assert_eq!(lines.offer(alone), [0_i64; 0]);
}

#[test]
fn no_claim_goes_behind_a_line_that_waits_for_several_runs() {
    let mut lines = line(3);
    assert_eq!(lines.offer(|_| 2), [0_i64; 0]);
    lines.claimed();
    assert_eq!(lines.offer(|_| 3), [0, 1, 2, 3]);
}

#[test]
fn many_short_lines_are_not_offered() {
    let mut lines: Lines<usize, ()> = Lines::default();
    for key in 0..=FEW {
        lines.enter(key, 1, ());
    }
    assert_eq!(lines.offer(alone), [0_i64; 0]);
    lines.claimed();
    for key in 0..=FEW {
        lines.enter(key, 2, ());
    }
    assert_eq!(lines.offer(|_| 2).len(), 2 * (FEW + 1));
}
