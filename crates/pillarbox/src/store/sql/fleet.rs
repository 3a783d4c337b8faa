//! The data that the relays of one database share: heartbeats, metrics, and the results of sweep and cleanup.

use std::collections::HashMap;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::{Call, Database, Row, Through, database, read, schema};
use crate::error::{DriverError, StoreError};
use crate::store::inspect::RelayView;
use crate::store::metrics::{Minute, Told, merged};
use crate::store::row::{as_json, killed_its_relays};
use crate::store::{Cleaned, Fleet, Heartbeat, LOSSES_BEFORE_FAILED, Retention, Swept};

#[async_trait]
impl<D: Database> Fleet for D {
    async fn check(&self) -> Result<(), StoreError> {
        schema::check(self).await
    }

    async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<(), StoreError> {
        let call = Call::new(D::statements().heartbeat)
            .bind(heartbeat.id)
            .bind(heartbeat.host.as_str())
            .bind(heartbeat.in_flight)
            .bind(heartbeat.idle)
            .bind(heartbeat.configuration.as_deref());
        self.done(Through::Relay, call).await.map_err(database("writing the heartbeat"))?;
        self.heartbeat_written(heartbeat.id).await.map_err(database("reading other relays' heartbeats"))
    }

    async fn tell(&self, told: Told<'_>) -> Result<(), StoreError> {
        tell(self, told).await.map_err(database("writing metrics"))
    }

    async fn farewell(&self, relay: Uuid) -> Result<(), StoreError> {
        for text in D::FAREWELL {
            let call = Call::new(*text).bind(relay);
            self.done(Through::Relay, call).await.map_err(database("removing the relay's heartbeat"))?;
        }
        self.relay_left(relay);
        Ok(())
    }

    async fn sweep(&self) -> Result<Vec<Swept>, StoreError> {
        let error = killed_its_relays();
        let rows = self.sweep_events(LOSSES_BEFORE_FAILED, &error).await.map_err(database("sweeping events"))?;
        for text in D::FORGET {
            self.done(Through::Relay, Call::new(*text)).await.map_err(database("sweeping relays"))?;
        }
        let swept = |row| Ok(Swept { event: read::event(row)?, error: error.clone() });
        rows.iter().map(swept).collect::<Result<_, DriverError>>().map_err(database("reading an event"))
    }

    async fn cleanup(&self, retention: &Retention) -> Result<Cleaned, StoreError> {
        self.cleanup_batch(retention).await.map_err(database("cleaning up"))
    }
}

async fn tell<D: Database>(store: &D, told: Told<'_>) -> Result<(), DriverError> {
    let sql = D::statements();
    for (text, rows) in [(sql.tell_minutes, as_json(told.minutes)?), (sql.tell_lanes, as_json(told.lanes)?)] {
        if let Some(rows) = rows {
            store.done(Through::Relay, Call::new(text).bind(told.relay).bind(rows)).await?;
        }
    }
    Ok(())
}

pub(super) async fn minutes<D: Database>(store: &D, since: DateTime<Utc>) -> Result<Vec<Minute>, DriverError> {
    let rows = store.rows(Through::People, Call::new(D::statements().minutes).bind(since)).await?;
    let minutes: Result<Vec<Minute>, _> = rows.iter().map(read::minute).collect();
    Ok(merged(minutes?))
}

/// Returns the relays that have written a heartbeat, with the lanes of live relays.
pub(super) async fn relays<D: Database>(store: &D) -> Result<Vec<RelayView>, DriverError> {
    let sql = D::statements();
    let relays = store.rows(Through::People, Call::new(sql.counts_relays)).await?;
    let lanes = store.rows(Through::People, Call::new(sql.lanes)).await?;
    let mut relays: Vec<RelayView> = relays.iter().map(read::relay).collect::<Result<_, _>>()?;
    let places: HashMap<Uuid, usize> = relays.iter().enumerate().map(|(place, relay)| (relay.id, place)).collect();
    for row in &lanes {
        if let Some(place) = places.get(&row.id("relay_id")?) {
            relays[*place].lanes.push(read::lane(row)?);
        }
    }
    Ok(relays)
}
