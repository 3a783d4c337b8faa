//! diesel-async.

use diesel_async::{AsyncConnection, AsyncPgConnection, TransactionManager};
use pillarbox::{EmitError, Event, emit, emit_all, emit_once};

use crate::fixture::{Answer, Driver, End, Fixture, Postgres, Step, take};

pub(crate) struct DieselAsync(AsyncPgConnection);

type Manager = <AsyncPgConnection as AsyncConnection>::TransactionManager;

impl Driver for DieselAsync {
    type Database = Postgres;

    async fn connect(url: &str) -> Self {
        Self(AsyncPgConnection::establish(url).await.unwrap())
    }

    async fn transaction(&mut self, steps: Vec<Step>, end: End) -> Vec<Answer> {
        Manager::begin_transaction(&mut self.0).await.unwrap();
        let answers = take(&mut self.0, steps).await;
        match end {
            End::Commit => Manager::commit_transaction(&mut self.0).await.unwrap(),
            End::Rollback => Manager::rollback_transaction(&mut self.0).await.unwrap(),
        }
        answers
    }
}

#[tokio::test]
async fn without_a_transaction_nothing_is_emitted() {
    let mut outbox = Fixture::<DieselAsync>::open().await;
    let placed = || Event::new("Order", 1, "order.placed");
    let connection = &mut outbox.driver().0;
    assert!(matches!(emit(connection, placed()).await, Err(EmitError::NoTransaction)));
    assert!(matches!(emit_once(connection, placed()).await, Err(EmitError::NoTransaction)));
    assert!(matches!(emit_all(connection, [placed()]).await, Err(EmitError::NoTransaction)));
    assert!(outbox.claim().await.is_empty());
}

#[tokio::test]
async fn a_closure_s_error_rolls_back_what_it_emitted() {
    let mut outbox = Fixture::<DieselAsync>::open().await;
    let failed: Result<(), Box<dyn std::error::Error + Send + Sync>> = outbox
        .driver()
        .0
        .transaction(async |tx| {
            emit(tx, Event::new("Order", 1, "order.placed")).await?;
            Err("it fails".into())
        })
        .await;
    assert_eq!(failed.unwrap_err().to_string(), "it fails");
    assert!(outbox.claim().await.is_empty());
}
