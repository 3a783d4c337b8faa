//! The stores: one conformance suite for all, and what only one of them has.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod adopted;
mod alone;
mod clock;
mod desk;
mod encrypted;
mod grants;
mod held;
mod looking;
mod mariadb;
mod mariadb_rights;
mod odd_times;
mod opening;
mod plan;
mod schema;
mod wal;

mod mysql {
    pillarbox_testkit::store_suite!(pillarbox_testkit::conformance::MysqlOutbox::create);
}

mod postgres {
    pillarbox_testkit::store_suite!(pillarbox_testkit::conformance::PostgresOutbox::create);
}

/// The order is the same where claims are held by locks.
mod postgres_held {
    use pillarbox_testkit::conformance::PostgresOutbox;

    async fn open() -> PostgresOutbox {
        let outbox = PostgresOutbox::create().await;
        outbox.postgres().hold_from_now_on();
        outbox
    }

    pillarbox_testkit::store_suite! { in super::open;
        order:
            one_claim_takes_an_aggregate_in_the_order_of_seq,
            nothing_is_claimed_behind_a_live_lease,
            a_claim_ends_an_aggregate_where_its_limit_does,
            an_event_is_not_claimed_before_an_earlier_one_that_waits_for_a_retry,
            an_outage_holds_up_its_aggregate_though_it_used_no_attempt,
            a_parked_event_holds_up_its_aggregate_only,
            a_failed_event_blocks_its_aggregate_until_people_act,
            a_failed_event_is_skipped_when_told_to,
            a_delayed_event_holds_up_nobody_until_it_is_due,
            a_retry_that_is_due_comes_before_what_was_emitted_after_it,
            bytes_end_a_claim_without_a_gap,
            many_blocked_events_at_the_front_hold_up_nobody,
            what_was_blocked_for_long_is_found_again,
            racing_claimers_never_split_the_order;
    }
}

mod sqlite {
    pillarbox_testkit::store_suite!(pillarbox_testkit::conformance::SqliteOutbox::create);
}
