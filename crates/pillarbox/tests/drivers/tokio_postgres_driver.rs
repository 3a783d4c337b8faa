//! tokio-postgres.

use tokio_postgres::{Client, NoTls};

use crate::fixture::{Answer, Driver, End, Postgres, Step, take};

pub(crate) struct TokioPostgres(Client);

impl Driver for TokioPostgres {
    type Database = Postgres;

    async fn connect(url: &str) -> Self {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        tokio::spawn(async move {
            // It ends with the client, or when the test's database is dropped.
            let _ = connection.await;
        });
        Self(client)
    }

    async fn transaction(&mut self, steps: Vec<Step>, end: End) -> Vec<Answer> {
        let mut tx = self.0.transaction().await.unwrap();
        let answers = take(&mut tx, steps).await;
        match end {
            End::Commit => tx.commit().await.unwrap(),
            End::Rollback => tx.rollback().await.unwrap(),
        }
        answers
    }
}
