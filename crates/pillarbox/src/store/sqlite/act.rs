//! What people do to events in SQLite, with its line in the audit, in one transaction.

use std::collections::{HashMap, HashSet};

use chrono::SecondsFormat;
use serde_json::json;
use sqlx::{Sqlite, Transaction};
use uuid::Uuid;

use super::{SqliteStore, read};
use crate::store::act::{Entry, Marked, REPLAY, REPLAY_OF, Replayed, Retried, key_of_replays};
use crate::store::row::{answers, distinct, kept, replayed};

type Tx = Transaction<'static, Sqlite>;

impl SqliteStore {
    pub(super) async fn retry_ids(&self, ids: &[Uuid], entry: Entry<'_>) -> Result<Vec<(Uuid, Retried)>, sqlx::Error> {
        let ids = &distinct(ids);
        let mut tx = self.durable.begin_with("BEGIN IMMEDIATE").await?;
        let statuses = statuses(&mut tx, ids).await?;
        let due: Vec<String> = sqlx::query_scalar(include_str!("../../../sql/sqlite/retry.sql"))
            .bind(json!(ids).to_string())
            .bind(before(entry))
            .fetch_all(&mut *tx)
            .await?;
        sqlx::query(include_str!("../../../sql/sqlite/retry_deliveries.sql"))
            .bind(json!(due).to_string())
            .execute(&mut *tx)
            .await?;
        write_down(&mut tx, entry, "retry", due.len()).await?;
        tx.commit().await?;
        Ok(answers(ids, &told(statuses, &read::ids(&due)?, "due", "failed"), Retried::of))
    }

    pub(super) async fn fail_ids(
        &self,
        ids: &[Uuid],
        reason: &str,
        entry: Entry<'_>,
    ) -> Result<Vec<(Uuid, Marked)>, sqlx::Error> {
        let (ids, reason) = (&distinct(ids), kept(reason).into_owned());
        let mut tx = self.durable.begin_with("BEGIN IMMEDIATE").await?;
        let statuses = statuses(&mut tx, ids).await?;
        let failed: Vec<String> = sqlx::query_scalar(include_str!("../../../sql/sqlite/fail.sql"))
            .bind(json!(ids).to_string())
            .bind(&reason)
            .bind(before(entry))
            .fetch_all(&mut *tx)
            .await?;
        sqlx::query(include_str!("../../../sql/sqlite/fail_deliveries.sql"))
            .bind(json!(failed).to_string())
            .bind(&reason)
            .execute(&mut *tx)
            .await?;
        write_down(&mut tx, entry, "fail", failed.len()).await?;
        tx.commit().await?;
        Ok(answers(ids, &told(statuses, &read::ids(&failed)?, "failed", "already"), Marked::of))
    }

    pub(super) async fn replay_ids(
        &self,
        ids: &[Uuid],
        entry: Entry<'_>,
    ) -> Result<Vec<(Uuid, Replayed)>, sqlx::Error> {
        let ids = &distinct(ids);
        let mut tx = self.durable.begin_with("BEGIN IMMEDIATE").await?;
        let there: Vec<(String, String, String)> = sqlx::query_as(include_str!("../../../sql/sqlite/replay_keys.sql"))
            .bind(json!(ids).to_string())
            .bind(before(entry))
            .fetch_all(&mut *tx)
            .await?;
        let (mut made, mut pending) = (HashMap::new(), HashSet::new());
        for (id, status, key) in there {
            let id: Uuid = id.parse().map_err(|error: uuid::Error| read::bad(error))?;
            if status == "pending" {
                pending.insert(id);
                continue;
            }
            let new_id = Uuid::now_v7();
            sqlx::query(include_str!("../../../sql/sqlite/replay.sql"))
                .bind(id.hyphenated())
                .bind(new_id.hyphenated())
                .bind(key_of_replays(&key))
                .bind(REPLAY)
                .bind(REPLAY_OF)
                .execute(&mut *tx)
                .await?;
            made.insert(id, new_id);
        }
        write_down(&mut tx, entry, "replay", made.len()).await?;
        tx.commit().await?;
        Ok(replayed(ids, &made, &pending))
    }

    pub(super) async fn begin_entry(&self, who: &str, what: &str, target: &str) -> Result<i64, sqlx::Error> {
        let query = sqlx::query_scalar(include_str!("../../../sql/sqlite/audit_write.sql"));
        query.bind(who).bind(what).bind(kept(target).into_owned()).bind(0_i64).fetch_one(&self.durable).await
    }
}

/// As moments are written.
fn before(entry: Entry<'_>) -> Option<String> {
    entry.unchanged_since().map(|moment| moment.to_rfc3339_opts(SecondsFormat::Millis, true))
}

async fn statuses(tx: &mut Tx, ids: &[Uuid]) -> Result<Vec<(Uuid, String)>, sqlx::Error> {
    let rows: Vec<(String, String)> = sqlx::query_as(include_str!("../../../sql/sqlite/statuses.sql"))
        .bind(json!(ids).to_string())
        .fetch_all(&mut **tx)
        .await?;
    let row = |(id, status): (String, String)| {
        let id = id.parse().map_err(|error: uuid::Error| read::bad(error))?;
        Ok((id, status))
    };
    rows.into_iter().map(row).collect()
}

/// The answers as PostgreSQL's statement gives them: what was changed, and why the others were not.
fn told(statuses: Vec<(Uuid, String)>, changed: &HashSet<Uuid>, to: &str, failed: &str) -> Vec<(Uuid, String)> {
    let answer = |(id, status): (Uuid, String)| {
        let answer = match status.as_str() {
            _ if changed.contains(&id) => to,
            "delivered" => "delivered",
            "failed" => failed,
            _ => "being_sent",
        };
        (id, answer.to_owned())
    };
    statuses.into_iter().map(answer).collect()
}

pub(super) async fn write_down(tx: &mut Tx, entry: Entry<'_>, what: &str, events: usize) -> Result<(), sqlx::Error> {
    if events == 0 {
        return Ok(());
    }
    let query = match entry {
        Entry::Anew { who, target } => sqlx::query(include_str!("../../../sql/sqlite/audit_write.sql"))
            .bind(who)
            .bind(what)
            .bind(kept(target).into_owned()),
        Entry::Adding { line, .. } => sqlx::query(include_str!("../../../sql/sqlite/audit_add.sql")).bind(line),
    };
    query.bind(i64::try_from(events).unwrap_or(i64::MAX)).execute(&mut **tx).await.map(drop)
}
