//! The demo's application: it writes an order and the event that tells of it in one transaction, and sometimes thinks
//! better of it.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::{Event, Outbox};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use sqlx::SqlitePool;

use super::Play;
use super::receiver::Receiver;
use super::tally::Tally;

/// The share of orders whose payment is declined after the event was emitted.
const DECLINED: f64 = 0.15;
/// Between two customers, in milliseconds.
const PAUSE: std::ops::Range<u64> = 4..38;
/// When the receiver goes down, as a share of the orders, and for how long.
const OUTAGE_AT: f64 = 0.45;
const OUTAGE: Duration = Duration::from_millis(1200);

pub(super) struct Shop {
    pool: SqlitePool,
    outbox: Outbox,
    tally: Arc<Tally>,
}

impl Shop {
    pub(super) async fn open(pool: SqlitePool, outbox: Outbox, tally: Arc<Tally>) -> anyhow::Result<Self> {
        sqlx::query(include_str!("create_orders.sql")).execute(&pool).await?;
        Ok(Self { pool, outbox, tally })
    }

    /// Customers come one after another. On the way the receiver has its outage.
    pub(super) async fn sell(&self, play: Play, receiver: &Receiver) -> anyhow::Result<()> {
        let mut chance = StdRng::seed_from_u64(play.seed);
        let outage_at = (f64::from(play.orders) * OUTAGE_AT) as u32;
        for number in 1..=play.orders {
            if number == outage_at {
                receiver.go_down_for(OUTAGE);
            }
            let total = format!("{}.{:02}", chance.random_range(5..200), chance.random_range(0..100));
            self.place(number, &total, chance.random_bool(DECLINED)).await?;
            tokio::time::sleep(Duration::from_millis(chance.random_range(PAUSE))).await;
        }
        Ok(())
    }

    /// One transaction: the order, its event, and then both or neither.
    async fn place(&self, number: u32, total: &str, declined: bool) -> anyhow::Result<()> {
        let mut tx = self.pool.begin().await?;
        sqlx::query(include_str!("insert_order.sql")).bind(number).bind(total).execute(&mut *tx).await?;
        let event = Event::new("Order", number, "order.placed").payload(json!({ "order": number, "total": total }));
        let emitted = self.outbox.emit(&mut tx, event).await?;
        if declined {
            tx.rollback().await?;
            self.tally.rolled_back(number, emitted.id);
        } else {
            self.outbox.commit(tx).await?;
            self.tally.committed(number, emitted.id);
        }
        Ok(())
    }

    /// How many orders there are in the shop's own table.
    pub(super) async fn orders(&self) -> anyhow::Result<u64> {
        let count: i64 = sqlx::query_scalar(include_str!("count_orders.sql")).fetch_one(&self.pool).await?;
        Ok(count.unsigned_abs())
    }
}
