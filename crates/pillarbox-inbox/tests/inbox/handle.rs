//! Requests whose handler ends the transaction by itself, on one connection that is used again.

use pillarbox_inbox::{Answer, Database, create_table};
use sqlx::Pool;

use crate::once::run;
use crate::vectors::valid;

#[tokio::test]
async fn a_handler_that_ends_its_transaction_and_fails_leaves_nothing_behind() {
    leaves_nothing_behind(&crate::postgres().await.pool).await;
    leaves_nothing_behind(&crate::mysql().await.pool).await;
    leaves_nothing_behind(&crate::sqlite().await.pool).await;
}

async fn leaves_nothing_behind<DB: Database>(shared: &Pool<DB>)
where
    for<'c> &'c mut DB::Connection: sqlx::Executor<'c, Database = DB>,
{
    let alone = sqlx::pool::PoolOptions::new().max_connections(1).connect_with((*shared.connect_options()).clone());
    let pool = &alone.await.unwrap();
    create_table(pool).await.unwrap();
    for statement in ["ROLLBACK", "COMMIT"] {
        assert_eq!(request(pool, statement, true).await.text(), "the handler failed", "{}: {statement}", DB::NAME);
    }
    assert_eq!(request(pool, "SELECT 1", false).await.text(), "handled", "{}", DB::NAME);
    assert_eq!(request(pool, "SELECT 1", false).await.text(), "duplicate", "{}", DB::NAME);
}

/// Sends the event `valid`, whose handler runs a statement.
async fn request<DB: Database>(pool: &Pool<DB>, statement: &'static str, fails: bool) -> Answer
where
    for<'c> &'c mut DB::Connection: sqlx::Executor<'c, Database = DB>,
{
    let (inbox, headers, body) = valid();
    let answer = inbox.receive(pool, &headers, body, |_, connection| {
        Box::pin(async move {
            run::<DB>(connection, statement).await?;
            if fails { Err("the handler was told to fail".into()) } else { Ok(()) }
        })
    });
    answer.await
}
