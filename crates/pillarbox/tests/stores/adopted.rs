//! The store on the tables of django-celery-outbox: its meaning of their columns, beside its own relay.

use std::time::Duration;

use pillarbox::delivery::{Change, Verdict};
use pillarbox::store::celery_outbox::{CeleryOutboxSettings, CeleryOutboxStore};
use pillarbox::store::{Ask, Claim, Settlement, Ticket};
use pillarbox::{Claims, Fleet, Parking, StoreError};
use pillarbox_testkit::CeleryOutbox;
use pillarbox_testkit::celery_outbox::TaskRow;

mod claiming;
mod settling;
mod upkeep;

const STALE: Duration = Duration::from_secs(300);
const ASK: Ask = Ask::new(100, 1 << 20, STALE);
/// Claims are stale the moment they are made.
const DEAD: Ask = Ask { lease: Duration::ZERO, ..ASK };

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

#[tokio::test]
async fn tables_that_are_not_there_or_not_those_of_0_4_3_are_refused_with_what_to_do() {
    let outbox = CeleryOutbox::create_empty().await;
    let store = store(&outbox).await;
    let refused = store.check().await.unwrap_err().to_string();
    assert!(refused.starts_with("there is no table \"celery_outbox\" in schema \"public\": run `manage.py migrate"));

    outbox.execute(pillarbox_testkit::celery_outbox::CELERY_OUTBOX_TABLES).await;
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
