//! One connection of the driver: its task, its kept statements, and how statements are sent.
//!
//! Texts without values, such as `BEGIN` and `COMMIT`, are sent together with the statement between them, so that a
//! transaction of one statement takes one round trip. The server runs them in this order. If the first one fails, the
//! statement fails too, because the transaction is aborted.

use std::collections::HashMap;
use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};

use futures_util::TryStreamExt;
use futures_util::future::{join, join3};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio_postgres::types::Type;
use tokio_postgres::{AsyncMessage, Client, Config, RowStream, Statement as Prepared};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error::Error;
use super::statement::{PgQuery, PgRow};
use crate::error::StoreError;

/// A connection. Dropping it closes it at once, even if the server does not respond any more.
pub(super) struct Wire {
    client: Client,
    /// The statements that the server keeps for this connection.
    kept: HashMap<String, Prepared>,
    task: AbortHandle,
}

/// The rows of a statement, and the number of written rows.
pub(super) struct Answer {
    pub(super) rows: Vec<PgRow>,
    pub(super) written: u64,
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").finish_non_exhaustive()
    }
}

impl Wire {
    /// Connects. The receiver gets a message for each notification, and ends with the connection.
    pub(super) async fn connect(
        config: &Config,
        tls: MakeRustlsConnect,
    ) -> Result<(Self, mpsc::UnboundedReceiver<()>), Error> {
        let (client, mut connection) = config.connect(tls).await?;
        let (notify, notified) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notification(_) = message {
                    // Nobody receives on a connection that does not listen.
                    let _ = notify.send(());
                }
            }
        });
        Ok((Self { client, kept: HashMap::new(), task: task.abort_handle() }, notified))
    }

    /// Returns whether the connection has ended.
    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    pub(super) async fn ping(&self) -> Result<(), Error> {
        Ok(self.client.check_connection().await?)
    }

    /// Runs statements without values.
    pub(super) async fn run(&self, text: &str) -> Result<(), Error> {
        Ok(self.client.batch_execute(text).await?)
    }

    /// Runs a statement between two texts.
    pub(super) async fn ask(
        &mut self,
        before: Option<&str>,
        query: PgQuery,
        after: Option<&str>,
    ) -> Result<Answer, Error> {
        let prepared = self.prepare(&query).await?;
        let around = |text| send_text(&self.client, text);
        let (begun, answer, ended) = join3(around(before), collect(&self.client, query, prepared), around(after)).await;
        let answer = begun.and(answer).and_then(|answer| ended.map(|()| answer));
        self.checked(answer)
    }

    /// Runs a statement after a text, and passes each row to `see` as it arrives, until one cannot be read.
    pub(super) async fn each(
        &mut self,
        before: Option<&str>,
        query: PgQuery,
        see: &mut (impl FnMut(&PgRow) -> Result<(), StoreError> + Send),
    ) -> Result<Result<(), StoreError>, Error> {
        let prepared = self.prepare(&query).await?;
        let sent = join(send_text(&self.client, before), send(&self.client, query, prepared)).await;
        let seen = match sent {
            (Ok(()), Ok(rows)) => see_each(pin!(rows), see).await,
            (Err(error), _) | (_, Err(error)) => Err(error),
        };
        self.checked(seen)
    }

    /// Returns the statement that the server keeps; `None` if it need not keep it.
    async fn prepare(&mut self, query: &PgQuery) -> Result<Option<Prepared>, Error> {
        if !query.kept {
            return Ok(None);
        }
        if let Some(prepared) = self.kept.get(&query.text) {
            return Ok(Some(prepared.clone()));
        }
        let types: Vec<Type> = query.values.iter().map(|(_, kind)| kind.clone()).collect();
        let prepared = self.client.prepare_typed(&query.text, &types).await?;
        self.kept.insert(query.text.clone(), prepared.clone());
        Ok(Some(prepared))
    }

    fn checked<T>(&mut self, outcome: Result<T, Error>) -> Result<T, Error> {
        if outcome.as_ref().is_err_and(Error::is_of_kept_statement) {
            self.kept.clear();
        }
        outcome
    }
}

async fn send_text(client: &Client, text: Option<&str>) -> Result<(), Error> {
    match text {
        Some(text) => Ok(client.batch_execute(text).await?),
        None => Ok(()),
    }
}

/// Sends a statement when it is first polled, so that several can be sent in order without waiting.
async fn send(client: &Client, query: PgQuery, prepared: Option<Prepared>) -> Result<RowStream, Error> {
    if let Some(unfit) = query.unfit {
        return Err(Error::Value(unfit));
    }
    Ok(match prepared {
        Some(prepared) => client.query_raw(&prepared, query.values.into_iter().map(|(value, _)| value)).await?,
        None => client.query_typed_raw(&query.text, query.values).await?,
    })
}

async fn collect(client: &Client, query: PgQuery, prepared: Option<Prepared>) -> Result<Answer, Error> {
    let mut stream = pin!(send(client, query, prepared).await?);
    let mut rows = Vec::new();
    while let Some(row) = stream.try_next().await? {
        rows.push(row);
    }
    let written = stream.rows_affected().unwrap_or_default();
    Ok(Answer { rows, written })
}

async fn see_each(
    mut rows: Pin<&mut RowStream>,
    see: &mut (impl FnMut(&PgRow) -> Result<(), StoreError> + Send),
) -> Result<Result<(), StoreError>, Error> {
    while let Some(row) = rows.try_next().await? {
        if let Err(unreadable) = see(&row) {
            return Ok(Err(unreadable));
        }
    }
    Ok(Ok(()))
}
