//! The demo's application: it writes an order and its event in one transaction, and rolls some of them back.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::{Event, Outbox};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;

use super::Play;
use super::place::Pool;
use super::receiver::Receiver;
use super::tally::Tally;

/// The share of orders whose payment is declined after the event was emitted.
const DECLINED: f64 = 0.15;
/// The time between two customers, in milliseconds.
const PAUSE: std::ops::Range<u64> = 4..38;
/// When the outage of the receiver begins, as a share of the orders, and its duration.
const OUTAGE_AT: f64 = 0.45;
const OUTAGE: Duration = Duration::from_millis(1200);

/// Runs an expression with the pool of the driver in use. sqlx's types differ for each database.
macro_rules! with_pool {
    ($on:expr, $pool:ident => $run:expr) => {
        match $on {
            Pool::Sqlite($pool) => $run,
            Pool::Postgres($pool) => $run,
            Pool::Mysql($pool) => $run,
        }
    };
}

pub(super) struct Shop<'a> {
    pool: &'a Pool,
    outbox: Outbox,
    tally: Arc<Tally>,
}

impl<'a> Shop<'a> {
    pub(super) async fn open(pool: &'a Pool, outbox: Outbox, tally: Arc<Tally>) -> anyhow::Result<Self> {
        let shop = Self { pool, outbox, tally };
        shop.close().await?;
        with_pool!(pool, pool => sqlx::query(include_str!("create_orders.sql")).execute(pool).await.map(drop))?;
        Ok(shop)
    }

    /// Removes the shop's table.
    pub(super) async fn close(&self) -> anyhow::Result<()> {
        with_pool!(self.pool, pool => sqlx::query(include_str!("drop_orders.sql")).execute(pool).await.map(drop))?;
        Ok(())
    }

    /// Places the orders one after another, and starts the receiver's outage on the way.
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

    /// Writes an order and its event in one transaction, and commits or rolls back both.
    async fn place(&self, number: u32, total: &str, declined: bool) -> anyhow::Result<()> {
        let insert = match self.pool {
            Pool::Postgres(_) => include_str!("insert_order_postgres.sql"),
            Pool::Sqlite(_) | Pool::Mysql(_) => include_str!("insert_order.sql"),
        };
        let event = Event::new("Order", number, "order.placed").payload(json!({ "order": number, "total": total }));
        let id = with_pool!(self.pool, pool => {
            let mut tx = pool.begin().await?;
            sqlx::query(insert).bind(number.cast_signed()).bind(total).execute(&mut *tx).await?;
            let emitted = self.outbox.emit(&mut tx, event).await?;
            if declined {
                tx.rollback().await?;
            } else {
                self.outbox.commit(tx).await?;
            }
            emitted.id
        });
        if declined {
            self.tally.rolled_back(number, id);
        } else {
            self.tally.committed(number, id);
        }
        Ok(())
    }

    /// Returns the number of orders in the shop's own table.
    pub(super) async fn orders(&self) -> anyhow::Result<u64> {
        let count: i64 =
            with_pool!(self.pool, pool => sqlx::query_scalar(include_str!("count_orders.sql")).fetch_one(pool).await)?;
        Ok(count.unsigned_abs())
    }
}
