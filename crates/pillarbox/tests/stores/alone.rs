//! Cleanup on PostgreSQL is done by one relay at a time.

use std::time::Duration;

use pillarbox::Fleet;
use pillarbox::store::{Cleaned, Retention};
use pillarbox_testkit::conformance::{Outbox, PostgresOutbox};
use sqlx::AssertSqlSafe;

const LOCK: &str = include_str!("../../sql/postgres/cleanup_lock.sql");

#[tokio::test]
async fn cleanup_is_left_to_the_relay_that_is_at_it() {
    let postgres = PostgresOutbox::create().await;
    let outbox: &dyn Outbox = &postgres;
    outbox.emit_one().await;
    outbox.claim_and_settle(pillarbox::delivery::Change::Deliver).await;
    let retention = Retention { delivered_after: Duration::ZERO, failed_after: Duration::ZERO, batch: 10 };

    let mut other = postgres.pool().begin().await.unwrap();
    sqlx::query(AssertSqlSafe(LOCK.replace("{schema}", "\"public\""))).execute(&mut *other).await.unwrap();
    let cleaned = postgres.postgres().cleanup(&retention).await.unwrap();
    assert_eq!(cleaned, Cleaned { elsewhere: true, ..Cleaned::default() });
    other.commit().await.unwrap();
    assert_eq!(postgres.postgres().cleanup(&retention).await.unwrap().deleted, 1);
}
