//! Emit: events in the caller's transaction, through sqlx, through SQL, and from other languages.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod both;
mod concurrency;
mod function;
mod fuzz;
mod insert;
mod logged;
mod payload;
mod refusal;
mod shop;
#[cfg(feature = "opentelemetry")]
mod trace;
mod wake;

/// Tests that must pass in the same way on every database.
macro_rules! on_every_database {
    ($($room:ident: $($test:ident),+ $(,)?;)+) => {
        mod mysql {
            $($(#[tokio::test]
            async fn $test() {
                let shop = <pillarbox_testkit::conformance::MysqlOutbox as crate::shop::Shop>::open().await;
                crate::$room::$test(&shop).await;
            })+)+
        }

        mod postgres {
            $($(#[tokio::test]
            async fn $test() {
                let shop = <pillarbox_testkit::conformance::PostgresOutbox as crate::shop::Shop>::open().await;
                crate::$room::$test(&shop).await;
            })+)+
        }

        mod sqlite {
            $($(#[tokio::test]
            async fn $test() {
                let shop = <pillarbox_testkit::conformance::SqliteOutbox as crate::shop::Shop>::open().await;
                crate::$room::$test(&shop).await;
            })+)+
        }
    };
}

on_every_database! {
    both:
        the_answer_is_the_event_as_written,
        data_and_event_share_one_fate,
        a_duplicate_names_both_and_leaves_the_transaction_usable,
        another_type_or_key_is_no_duplicate,
        repeatable_is_never_a_duplicate,
        emit_once_answers_the_existing_event,
        emit_all_keeps_the_order,
        emit_all_of_nothing_is_nothing,
        emit_all_with_an_existing_key_writes_none,
        emit_all_with_a_repeated_key_writes_none,
        a_refused_event_leaves_the_transaction_usable,
        an_event_that_violates_a_check_leaves_the_transaction_usable;
    payload:
        ids_moments_and_decimals_come_back,
        numbers_keep_their_digits,
        text_comes_back,
        a_payload_may_be_any_json,
        without_a_payload_it_is_an_empty_object,
        headers_and_limits_come_back,
        deliver_at_is_kept_to_the_millisecond,
        what_should_have_been_delivered_is_due_now,
        the_largest_numbers_and_the_deepest_lists_come_back;
}
