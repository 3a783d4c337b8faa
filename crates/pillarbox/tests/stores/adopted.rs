//! The store on the tables of django-celery-outbox: its meaning of their columns, beside its own relay.

use std::time::Duration;

use pillarbox::delivery::{Change, Verdict};
use pillarbox::store::celery_outbox::{CeleryOutboxSettings, CeleryOutboxStore};
use pillarbox::store::{Ask, Claim, Settlement, Ticket};
use pillarbox::{Claims, Fleet, Parking, StoreError};
use pillarbox_testkit::CeleryOutbox;
use pillarbox_testkit::celery_outbox::{On, TaskRow};

mod claiming;
mod mariadb;
mod settling;
mod upkeep;

/// Runs the checks of these files on a database.
macro_rules! on {
    ($on:expr; $(#[$test:meta] $file:ident: $($check:ident),+ $(,)?;)+) => {
        $(mod $file {
            $(#[$test]
            async fn $check() {
                super::super::$file::$check(super::super::CeleryOutbox::create_on($on).await).await;
            })+
        })+
    };
    ($on:expr) => {
        #[tokio::test]
        async fn unknown_tables_are_refused() {
            super::tables_that_are_not_there_or_not_those_of_0_4_3_are_refused_with_what_to_do($on).await;
        }

        on! { $on;
            #[tokio::test(flavor = "multi_thread")]
            claiming:
                a_claim_takes_the_oldest_first_and_its_own_relay_leaves_them_alone,
                an_event_is_the_message_of_its_row,
                all_three_kinds_of_due_rows_are_claimed_and_no_others,
                a_retried_task_on_its_way_is_not_selected_again,
                a_retried_task_that_its_own_relay_has_on_its_way_is_left_to_it_until_that_is_stale,
                beside_its_own_relay_no_task_is_taken_twice,
                a_claim_is_bounded_in_bytes_but_takes_one,
                claimers_never_share_a_row,
                what_its_own_relay_has_locked_is_passed_over,
                a_claim_that_is_dropped_is_untried_again,
                a_row_that_cannot_be_a_message_says_so_and_stops_nobody;
            #[tokio::test]
            settling:
                what_is_delivered_is_deleted,
                a_retry_counts_and_waits,
                what_fails_becomes_a_dead_letter_with_its_error,
                what_is_parked_waits_for_the_cooldown_and_nothing_is_claimed_meanwhile,
                what_another_has_touched_is_not_let_back,
                what_is_released_is_as_it_was,
                a_claim_that_was_stale_cannot_be_settled,
                a_task_that_somebody_reset_meanwhile_is_not_ours_any_more,
                a_renewed_claim_is_young_and_can_be_settled,
                a_renewal_that_is_cancelled_does_not_lose_the_claim;
            #[tokio::test]
            upkeep:
                what_has_failed_too_often_already_is_given_up_unsent,
                it_is_known_when_the_next_is_due,
                it_is_known_how_much_waits;
        }
    };
}

mod on_postgres {
    on!(pillarbox_testkit::celery_outbox::On::Postgres);
}

mod on_mariadb {
    on!(pillarbox_testkit::celery_outbox::On::Mysql);
}

const STALE: Duration = Duration::from_secs(300);
const ASK: Ask<'static> = Ask::new(100, 1 << 20, STALE);
/// Claims are stale the moment they are made.
const DEAD: Ask<'static> = Ask { lease: Duration::ZERO, ..ASK };

async fn store(outbox: &CeleryOutbox) -> CeleryOutboxStore {
    outbox.store(CeleryOutboxSettings::default()).await
}

fn ids(claim: &Claim) -> Vec<i64> {
    claim.iter().map(|claimed| claimed.event().seq).collect()
}

fn verdicts(claim: Claim, change: &Change, attempts: u32) -> Vec<Settlement> {
    claim.into_iter().map(|claimed| claimed.settle(Verdict::of(change.clone(), attempts))).collect()
}

async fn settle(store: &CeleryOutboxStore, claim: Claim, change: Change, attempts: u32) -> Vec<Ticket> {
    store.settle(&verdicts(claim, &change, attempts), true).await.unwrap()
}

fn retry(after: u64) -> Change {
    Change::Retry { after: Duration::from_secs(after), error: "no".to_owned() }
}

fn park() -> Change {
    Change::Park { on: "celery".to_owned(), error: "down".to_owned() }
}

/// How many seconds after it was written a row is due.
fn wait(row: &TaskRow) -> i64 {
    (row.retry_after.unwrap() - row.updated_at.unwrap()).num_seconds()
}

async fn tables_that_are_not_there_or_not_those_of_0_4_3_are_refused_with_what_to_do(on: On) {
    let outbox = CeleryOutbox::create_empty(on).await;
    let store = store(&outbox).await;
    let refused = store.check().await.unwrap_err().to_string();
    let expected =
        format!("there is no table \"celery_outbox\" in schema {:?}: run `manage.py migrate", outbox.schema());
    assert!(refused.starts_with(&expected), "{refused}");

    outbox.execute(on.tables()).await;
    store.check().await.unwrap();

    outbox.execute("ALTER TABLE celery_outbox_dead_letter ADD COLUMN team text NOT NULL").await;
    let refused = store.check().await.unwrap_err();
    assert!(matches!(&refused, StoreError::TooNewToAdopt { column, .. } if column == "team"), "{refused}");
    outbox.execute("ALTER TABLE celery_outbox_dead_letter ALTER COLUMN team SET DEFAULT ''").await;
    store.check().await.unwrap();

    outbox.execute("ALTER TABLE celery_outbox DROP COLUMN redacted_args").await;
    let refused = store.check().await.unwrap_err().to_string();
    assert!(refused.contains("\"celery_outbox\" has no column \"redacted_args\""), "{refused}");
}
