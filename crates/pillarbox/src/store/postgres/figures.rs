//! What relays write down for people on PostgreSQL, and how people read it.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use sqlx::Row;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::moment::Moment;
use super::{PostgresStore, read};
use crate::store::figures::{LaneView, Minute, Told, merged};
use crate::store::inspect::RelayView;
use crate::store::row::as_json;

impl PostgresStore {
    pub(super) async fn write_figures(&self, told: Told<'_>) -> Result<(), sqlx::Error> {
        let parts = [
            (include_str!("../../../sql/postgres/tell_minutes.sql"), as_json(told.minutes)?),
            (include_str!("../../../sql/postgres/tell_lanes.sql"), as_json(told.lanes)?),
        ];
        for (statement, rows) in parts {
            if let Some(rows) = rows {
                self.schema.query(statement).bind(told.relay).bind(rows).execute(&self.pool).await?;
            }
        }
        Ok(())
    }

    pub(super) async fn read_minutes(&self, since: DateTime<Utc>) -> Result<Vec<Minute>, sqlx::Error> {
        let rows = self
            .schema
            .query(include_str!("../../../sql/postgres/minutes.sql"))
            .bind(Moment::from(since))
            .fetch_all(&self.pool)
            .await?;
        let minutes: Result<Vec<Minute>, _> = rows.iter().map(minute).collect();
        Ok(merged(minutes?))
    }

    /// All that have said that they live, with how they find their destinations.
    pub(super) async fn read_relays(&self) -> Result<Vec<RelayView>, sqlx::Error> {
        let relays =
            self.schema.query(include_str!("../../../sql/postgres/counts_relays.sql")).fetch_all(&self.pool).await?;
        let lanes = self.schema.query(include_str!("../../../sql/postgres/lanes.sql")).fetch_all(&self.pool).await?;
        let mut relays: Vec<RelayView> = relays.iter().map(relay).collect::<Result<_, _>>()?;
        let places: HashMap<Uuid, usize> = relays.iter().enumerate().map(|(place, relay)| (relay.id, place)).collect();
        for row in &lanes {
            let of: Uuid = row.try_get("relay_id")?;
            if let Some(place) = places.get(&of) {
                relays[*place].lanes.push(lane(row)?);
            }
        }
        Ok(relays)
    }
}

fn minute(row: &PgRow) -> Result<Minute, sqlx::Error> {
    let count = |name: &str| row.try_get::<i64, _>(name).map(i64::unsigned_abs);
    Ok(Minute {
        at: read::moment(row, "minute")?,
        destination: row.try_get("destination")?,
        delivered: count("delivered")?,
        failed: count("failed")?,
        given_up: count("given_up")?,
        latency: serde_json::from_str(row.try_get("latency")?).map_err(read::bad)?,
    })
}

fn relay(row: &PgRow) -> Result<RelayView, sqlx::Error> {
    Ok(RelayView {
        id: row.try_get("id")?,
        host: row.try_get("host")?,
        started_at: read::moment(row, "started_at")?,
        heartbeat_at: read::moment(row, "heartbeat_at")?,
        in_flight: row.try_get::<i64, _>("in_flight")?.unsigned_abs(),
        idle: row.try_get("idle")?,
        alive: row.try_get("alive")?,
        lanes: Vec::new(),
    })
}

fn lane(row: &PgRow) -> Result<LaneView, sqlx::Error> {
    Ok(LaneView {
        destination: row.try_get("destination")?,
        paused: row.try_get("paused")?,
        down: row.try_get("down")?,
        congested: row.try_get("congested")?,
        queued: row.try_get::<i64, _>("queued")?.unsigned_abs(),
        sending: row.try_get::<i64, _>("sending")?.unsigned_abs(),
        last_error: row.try_get("last_error")?,
        last_error_at: read::maybe_moment(row, "last_error_at")?,
    })
}
