//! What people do to events on PostgreSQL, with its line in the audit, in one transaction.

use std::collections::{HashMap, HashSet};

use uuid::Uuid;

use super::link::Tx;
use super::{PostgresStore, limit};
use crate::store::act::{Entry, Marked, REPLAY, REPLAY_OF, Replayed, Retried, key_of_replays};
use crate::store::row::{answers, distinct, kept, replayed};

/// How often others may be quicker.
const ROUNDS_IN_VAIN: usize = 5;

impl PostgresStore {
    pub(super) async fn retry_ids(&self, ids: &[Uuid], entry: Entry<'_>) -> Result<Vec<(Uuid, Retried)>, sqlx::Error> {
        let ids = &distinct(ids);
        let mut tx = self.pool.begin().await?;
        let told: Vec<(Uuid, String)> = self
            .schema
            .query_as(include_str!("../../../sql/postgres/retry.sql"))
            .bind(ids)
            .bind(entry.unchanged_since())
            .fetch_all(&mut *tx)
            .await?;
        let answers = answers(ids, &told, Retried::of);
        let due = answers.iter().filter(|(_, answer)| *answer == Retried::Due).count();
        self.write_down(&mut tx, entry, "retry", due).await?;
        self.wake_relays(&mut tx, due).await?;
        tx.commit().await?;
        Ok(answers)
    }

    pub(super) async fn fail_ids(
        &self,
        ids: &[Uuid],
        reason: &str,
        entry: Entry<'_>,
    ) -> Result<Vec<(Uuid, Marked)>, sqlx::Error> {
        let ids = &distinct(ids);
        let mut tx = self.pool.begin().await?;
        let told: Vec<(Uuid, String)> = self
            .schema
            .query_as(include_str!("../../../sql/postgres/fail.sql"))
            .bind(ids)
            .bind(kept(reason).into_owned())
            .bind(entry.unchanged_since())
            .fetch_all(&mut *tx)
            .await?;
        let answers = answers(ids, &told, Marked::of);
        let failed = answers.iter().filter(|(_, answer)| *answer == Marked::Failed).count();
        self.write_down(&mut tx, entry, "fail", failed).await?;
        tx.commit().await?;
        Ok(answers)
    }

    pub(super) async fn replay_ids(
        &self,
        ids: &[Uuid],
        entry: Entry<'_>,
    ) -> Result<Vec<(Uuid, Replayed)>, sqlx::Error> {
        let ids = &distinct(ids);
        let mut tx = self.pool.begin().await?;
        let there: Vec<(Uuid, String, String)> = self
            .schema
            .query_as(include_str!("../../../sql/postgres/replay_keys.sql"))
            .bind(ids)
            .bind(entry.unchanged_since())
            .fetch_all(&mut *tx)
            .await?;
        let mut open: Vec<(Uuid, Uuid, String)> = there
            .iter()
            .filter(|(_, status, _)| status != "pending")
            .map(|(id, _, key)| (*id, Uuid::now_v7(), key_of_replays(key)))
            .collect();
        let mut made = HashMap::new();
        let mut in_vain = 0;
        // What shares a key with another one, or with what somebody else replays, has its turn in the next round.
        while !open.is_empty() {
            let written: HashSet<Uuid> = self
                .schema
                .query_scalar::<Uuid>(include_str!("../../../sql/postgres/replay.sql"))
                .bind(open.iter().map(|(id, ..)| *id).collect::<Vec<_>>())
                .bind(open.iter().map(|(_, new_id, _)| *new_id).collect::<Vec<_>>())
                .bind(open.iter().map(|(.., key)| key.clone()).collect::<Vec<_>>())
                .bind(REPLAY)
                .bind(REPLAY_OF)
                .fetch_all(&mut *tx)
                .await?
                .into_iter()
                .collect();
            // Somebody else has taken just these numbers.
            in_vain += usize::from(written.is_empty());
            if in_vain > ROUNDS_IN_VAIN {
                break;
            }
            made.extend(open.iter().filter(|row| written.contains(&row.1)).map(|row| (row.0, row.1)));
            open.retain(|row| !written.contains(&row.1));
        }
        self.write_down(&mut tx, entry, "replay", made.len()).await?;
        self.wake_relays(&mut tx, made.len()).await?;
        tx.commit().await?;
        let pending = there.iter().filter(|row| row.1 == "pending").map(|row| row.0).collect();
        Ok(replayed(ids, &made, &pending))
    }

    pub(super) async fn begin_entry(&self, who: &str, what: &str, target: &str) -> Result<i64, sqlx::Error> {
        let query = self.schema.query_scalar(include_str!("../../../sql/postgres/audit_write.sql"));
        query.bind(who).bind(what).bind(kept(target).into_owned()).bind(0_i64).fetch_one(&self.pool).await
    }

    pub(super) async fn write_down(
        &self,
        tx: &mut Tx,
        entry: Entry<'_>,
        what: &str,
        events: usize,
    ) -> Result<(), sqlx::Error> {
        if events == 0 {
            return Ok(());
        }
        let query = match entry {
            Entry::Anew { who, target } => self
                .schema
                .query(include_str!("../../../sql/postgres/audit_write.sql"))
                .bind(who)
                .bind(what)
                .bind(kept(target).into_owned()),
            Entry::Adding { line, .. } => {
                self.schema.query(include_str!("../../../sql/postgres/audit_add.sql")).bind(line)
            }
        };
        query.bind(limit(events)).execute(&mut **tx).await.map(drop)
    }

    /// So many are due now, and a relay that is idle need not find out by itself.
    async fn wake_relays(&self, tx: &mut Tx, due: usize) -> Result<(), sqlx::Error> {
        if due == 0 {
            return Ok(());
        }
        self.schema.query(include_str!("../../../sql/postgres/wake.sql")).execute(&mut **tx).await.map(drop)
    }
}
