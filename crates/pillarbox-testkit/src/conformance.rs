//! The conformance suites: the behaviour that all stores share, and that all sinks share (see [`sinks`]), each check a test of its
//! own.
//!
//! A store's tests call [`store_suite!`](crate::store_suite) with the function that opens a fresh [`Outbox`]. A store that only
//! relays use calls [`relay_suite!`](crate::relay_suite). The checks know the two store traits and no database.
#![allow(clippy::unwrap_used, reason = "a check that cannot go on has failed")]

pub mod act;
pub mod claim;
pub mod fan_out;
pub mod fence;
pub mod leases;
pub mod list;
pub mod look_up;
pub mod migrate;
pub mod mysql;
pub mod next_due;
pub mod order;
pub mod outbox;
pub mod parking;
pub mod people;
pub mod postgres;
pub mod retry;
pub mod settle;
pub mod simulated;
pub mod sinks;
pub mod sqlite;
pub mod upkeep;

pub use mysql::MysqlOutbox;
pub use outbox::Outbox;
pub use postgres::PostgresOutbox;
pub use simulated::SimulatedOutbox;
pub use sqlite::SqliteOutbox;

/// Defines the tests of a store's relay traits, one per check: claims, leases, settles and upkeep. `$open` is an async function
/// that returns a fresh [`Outbox`].
#[macro_export]
macro_rules! relay_suite {
    ($open:path) => {
        $crate::store_suite! { in $open;
            claim:
                rollback_emits_nothing,
                an_event_for_later_is_not_claimed,
                two_claimers_never_share_an_event,
                a_claim_takes_no_more_events_than_asked_for,
                a_claim_takes_no_more_bytes_than_asked_for_but_always_one_event,
                bytes_are_those_of_the_json_however_well_they_compress,
                the_oldest_due_is_claimed_first,
                a_claim_carries_the_event_as_it_was_emitted,
                nothing_due_is_an_empty_claim;
            fence:
                a_late_settle_changes_nothing_and_is_answered_as_lost,
                a_late_settle_with_delete_deletes_nothing,
                a_late_settle_writes_no_details,
                a_late_give_back_changes_nothing,
                one_lost_lease_does_not_keep_the_others_from_settling,
                renew_extends_only_what_is_ours;
            leases:
                a_dropped_claim_comes_back_at_once,
                a_dropped_claim_keeps_its_attempts_and_losses,
                an_expired_lease_is_claimed_again_and_counts_as_a_loss,
                a_live_lease_is_not_claimed,
                a_suspect_is_claimed_alone,
                suspects_are_claimed_apart_from_others,
                a_suspect_holds_up_nobody_in_the_line,
                a_lone_loss_counts_only_when_its_relay_has_said_so,
                settling_forgets_the_losses,
                the_killer_ends_failed_and_its_neighbours_never,
                giving_up_says_why;
            settle:
                delivered_is_terminal,
                a_delivery_keeps_the_number_of_failures,
                release_gives_back_at_once_and_keeps_the_counts,
                attempts_are_kept_and_numbered,
                successful_attempts_can_be_recorded,
                attempts_are_bounded_to_the_latest,
                what_is_kept_of_an_answer_is_bounded_and_storable,
                delivered_and_deleted_leaves_nothing,
                delete_keeps_what_was_not_delivered,
                an_empty_settle_is_fine;
            retry:
                the_next_attempt_is_set_by_the_databases_clock,
                a_retry_is_not_claimed_before_its_time,
                the_last_attempt_makes_it_failed,
                an_event_without_a_limit_never_fails,
                a_rejected_event_is_failed_at_once;
            fan_out:
                a_partial_success_keeps_what_is_open,
                every_destination_is_due_when_its_event_is,
                a_destination_waits_for_its_own_time,
                a_destination_is_unparked_whatever_the_others_wait_for,
                the_operators_retry_opens_only_what_was_not_delivered,
                all_delivered_ends_the_event,
                a_fan_out_that_succeeds_at_once_writes_no_rows;
            parking:
                what_is_parked_is_not_claimed,
                what_is_parked_is_told_by_destination_and_kind,
                unparking_makes_due_the_oldest_first_up_to_a_limit,
                unparking_a_kind_leaves_the_others,
                the_parked_events_of_a_kind_are_read_in_pages_and_unparked_by_id;
            next_due:
                nothing_pending_is_never_due,
                what_is_due_is_due_in_no_time,
                what_is_due_later_says_how_much_later,
                what_is_parked_is_not_waited_for,
                what_is_leased_is_due_when_its_lease_ends;
            order:
                one_claim_takes_an_aggregate_in_the_order_of_seq,
                nothing_is_claimed_behind_a_live_lease,
                a_claim_goes_behind_the_events_that_its_relay_names,
                a_claim_ends_an_aggregate_where_its_limit_does,
                an_event_is_not_claimed_before_an_earlier_one_that_waits_for_a_retry,
                an_outage_holds_up_its_aggregate_though_it_used_no_attempt,
                a_parked_event_holds_up_its_aggregate_only,
                a_failed_event_blocks_its_aggregate_until_people_act,
                a_failed_event_is_skipped_when_told_to,
                a_delayed_event_holds_up_nobody_until_it_is_due,
                a_retry_that_is_due_comes_before_what_was_emitted_after_it,
                a_suspect_goes_alone_and_its_aggregate_waits,
                bytes_end_a_claim_without_a_gap,
                many_blocked_events_at_the_front_hold_up_nobody,
                what_was_blocked_for_long_is_found_again,
                racing_claimers_never_split_the_order;
            upkeep:
                cleanup_counts_age_from_the_terminal_moment,
                cleanup_keeps_failed_and_delivered_for_their_own_time,
                cleanup_never_takes_what_is_pending,
                cleanup_works_in_batches_and_says_whether_more_remain,
                cleanup_takes_the_details_too,
                remaining_counts_what_is_due_and_free,
                relays_are_told_by_their_heartbeats,
                a_relay_tells_its_minutes_and_how_it_finds_its_destinations,
                old_minutes_are_forgotten,
                a_relay_without_a_heartbeat_is_not_alive_and_then_forgotten;
        }
    };
}

/// Defines the tests of a store, one per check: [`relay_suite!`](crate::relay_suite), `Inspect` and the schema. `$open` is an
/// async function that returns a fresh, migrated [`Outbox`].
#[macro_export]
macro_rules! store_suite {
    (in $open:path; $($room:ident: $($check:ident),+ $(,)?;)+) => {
        $(mod $room {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $check() {
                let outbox = $open().await;
                $crate::conformance::$room::$check(&outbox).await;
            })+
        })+
    };
    ($open:path) => {
        $crate::relay_suite!($open);
        $crate::store_suite! { in $open;
            list:
                the_list_is_newest_first_in_pages,
                every_list_goes_on_where_its_page_ended,
                pending_is_what_waits_and_then_what_is_parked,
                a_list_can_begin_with_the_oldest,
                every_list_can_be_turned_back,
                events_with_failures_can_be_asked_for,
                each_filter_narrows_the_list,
                time_narrows_every_list,
                events_belong_to_where_they_are_routed_and_to_where_they_failed,
                where_the_payload_decides_each_event_is_asked_for_it,
                every_state_can_be_asked_for,
                search_finds_parts_whatever_the_case,
                wildcards_in_a_search_mean_themselves,
                a_page_looks_at_so_many_and_says_how_far_it_came,
                a_cursor_of_another_list_is_refused;
            people:
                counts_tell_where_the_events_are,
                depth_tells_what_waits,
                waiting_tells_what_waits_for_whom,
                pauses_are_told_and_written_down,
                get_tells_everything,
                retry_makes_a_failed_event_due_with_all_its_attempts,
                retry_answers_for_each_event,
                retry_unparks,
                retry_of_all_failed_takes_the_oldest_up_to_the_limit,
                emitting_for_people_commits,
                emitting_once_for_people_answers_what_exists;
            act:
                fail_answers_for_each_event,
                fail_and_retry_leave_a_destination_that_has_the_event_alone,
                what_lost_its_lease_can_be_failed,
                a_given_up_event_is_parked_nowhere,
                a_swept_event_is_parked_nowhere,
                a_replay_is_a_new_event_that_is_due,
                every_replay_has_a_key_of_its_own,
                a_replay_to_one_destination_leaves_the_others_out,
                a_replay_to_one_destination_follows_the_route,
                a_replay_to_one_destination_follows_the_payload,
                only_what_is_done_is_replayed,
                what_people_do_is_written_down,
                what_has_changed_since_it_was_chosen_is_left_alone,
                work_in_batches_is_one_line_of_the_audit;
            look_up:
                find_takes_ids_keys_and_aggregates,
                find_returns_the_history_of_an_aggregate,
                find_tells_what_it_has_not_searched,
                neighbours_are_of_the_same_aggregate,
                dead_letters_are_told_by_what_they_have_in_common,
                many_dead_letters_are_looked_at_as_far_as_it_goes;
            migrate:
                a_missing_schema_is_refused_with_the_command_to_run,
                migrating_twice_is_fine,
                migrating_concurrently_is_fine,
                a_newer_schema_is_fine_until_it_needs_a_newer_program;
        }
    };
}

#[cfg(test)]
mod tests {
    /// Fails for a check that is not listed, because it would never run.
    #[test]
    fn every_check_is_listed() {
        let list = include_str!("conformance.rs");
        let rooms = [
            include_str!("conformance/act.rs"),
            include_str!("conformance/claim.rs"),
            include_str!("conformance/fan_out.rs"),
            include_str!("conformance/fence.rs"),
            include_str!("conformance/leases.rs"),
            include_str!("conformance/list.rs"),
            include_str!("conformance/look_up.rs"),
            include_str!("conformance/migrate.rs"),
            include_str!("conformance/next_due.rs"),
            include_str!("conformance/order.rs"),
            include_str!("conformance/parking.rs"),
            include_str!("conformance/people.rs"),
            include_str!("conformance/retry.rs"),
            include_str!("conformance/settle.rs"),
            include_str!("conformance/upkeep.rs"),
        ];
        let checks = rooms.iter().flat_map(|room| room.lines()).filter_map(|line| {
            line.strip_prefix("pub async fn ").and_then(|rest| rest.split_once('(')).map(|(name, _)| name)
        });
        let unlisted: Vec<&str> = checks.filter(|name| !list.contains(&format!(" {name}"))).collect();
        assert_eq!(unlisted, [""; 0]);
    }
}
