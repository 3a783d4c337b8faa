//! The lead: one relay reads, another takes over when it dies, and a relay that stops leaves nothing behind.

use std::time::{Duration, Instant};

use pillarbox::source::wal::WalSettings;
use pillarbox_testkit::{Proxy, wait_until};
use sqlx::Connection;
use sqlx::postgres::{PgConnectOptions, PgConnection};

use super::fixture::{Outbox, PATIENCE, Place, Running};

#[tokio::test]
async fn a_relay_that_stops_hands_the_log_over_at_once() {
    let outbox = Outbox::new().await;
    let (one, other) = (Place::fine(), Place::fine());
    let first = outbox.relay(&one).await;
    first.leads().await;
    let second = outbox.start(&other, super::fixture::impatient()).await;
    let ids = outbox.emit(10).await;
    one.gets(&ids).await;
    let began = Instant::now();
    first.stop().await;
    second.leads().await;
    outbox.gate_is(true).await;
    assert!(began.elapsed() < Duration::from_secs(4), "the lease was given back: {:?}", began.elapsed());
    let more = outbox.emit(10).await;
    other.gets(&more).await;
    second.stop().await;
    assert_eq!((one.got(), other.got()), (ids, more), "nothing was sent twice");
}

#[tokio::test]
async fn what_is_committed_while_nobody_reads_waits_in_the_log() {
    let outbox = Outbox::new().await;
    let place = Place::fine();
    outbox.relay(&place).await.stop().await;
    let ids = outbox.emit(7).await;
    let relay = outbox.relay(&place).await;
    place.gets(&ids).await;
    relay.stop().await;
    assert_eq!(place.got(), ids);
}

#[tokio::test]
async fn the_stored_time_passes_an_event_only_when_it_is_delivered() {
    let outbox = Outbox::new().await;
    let place = Place::fine();
    let first = outbox.relay(&place).await;
    let table = first.store.table().clone();
    first.stop().await;
    let now = async || -> chrono::DateTime<chrono::Utc> {
        sqlx::query_scalar("SELECT clock_timestamp()").fetch_one(&outbox.pool).await.unwrap()
    };
    let status = async || table.log_status().await.unwrap().unwrap();
    let (before, ids, after) = (now().await, outbox.emit(7).await, now().await);
    let unread = status().await;
    assert!(unread.confirmed_at <= before, "{unread:?}");
    assert!(unread.behind_seconds > 0.0, "{unread:?}");
    let relay = outbox.relay(&place).await;
    place.gets(&ids).await;
    wait_until("the time has passed the events", PATIENCE, async || status().await.confirmed_at >= after).await;
    wait_until("nothing is late", PATIENCE, async || relay.metrics().lag == Some(Duration::ZERO)).await;
    let metrics = relay.metrics();
    assert_eq!(metrics.keep_bytes, Some(1 << 30), "{metrics:?}");
    assert!(metrics.left_bytes.is_some_and(|left| left < 1 << 31), "{metrics:?}");
    let metrics = relay.stop().await;
    assert_eq!((metrics.lag, metrics.lag_bytes), (None, None), "only the leader knows");
}

/// A leader whose process hangs: it neither beats nor reads, and its connection stays.
#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_a_leader_that_hangs_is_taken_over() {
    let outbox = Outbox::new().await;
    let one = Place::fine();
    let url = outbox.server.url();
    let hung = std::thread::spawn({
        let one = one.clone();
        move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let table = pillarbox::store::postgres::PostgresStore::connect(&url, "public").await.unwrap();
                let settings = WalSettings { lease: Duration::from_secs(4), ..WalSettings::default() };
                let store = pillarbox::source::wal::WalStore::new(table, settings);
                let destination = pillarbox::Destination::new("place", one.clone()).timeout(Duration::from_secs(1));
                let relay = pillarbox::Relay::builder(std::sync::Arc::new(store))
                    .settings(super::fixture::impatient())
                    .destination(destination)
                    .route(pillarbox::Route::new("*", ["place"]))
                    .build()
                    .unwrap();
                let hang = async {
                    wait_until("it got something", PATIENCE, async || !one.got().is_empty()).await;
                };
                tokio::select! {
                    _ = relay.run(std::future::pending()) => {}
                    () = hang => {}
                }
                // The runtime does nothing any more; its sockets stay open.
                std::thread::sleep(Duration::from_secs(20));
            });
        }
    });
    outbox.gate_is(true).await;
    let mut ids = outbox.emit(1).await;
    one.gets(&ids).await;
    let began = Instant::now();
    let other = Place::fine();
    let relay = outbox.start(&other, super::fixture::impatient()).await;
    for _ in 0..20 {
        ids.extend(outbox.emit(3).await);
    }
    other.gets(&ids[1..]).await;
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    outbox.gate_is(true).await;
    relay.stop().await;
    drop(hung);
}

#[tokio::test]
async fn a_server_that_stops_and_starts_is_read_on() {
    let mut outbox = Outbox::new().await;
    let place = Place::fine();
    let relay = outbox.relay(&place).await;
    let mut ids = outbox.emit(10).await;
    place.gets(&ids).await;
    let began = Instant::now();
    outbox.server.stop().await;
    assert!(
        began.elapsed() < Duration::from_secs(8),
        "a shutdown waits for the stream to confirm: {:?}",
        began.elapsed()
    );
    outbox.server.start_again().await;
    outbox.connect_again().await;
    ids.extend(outbox.emit(10).await);
    place.gets(&ids).await;
    outbox.server.restart_immediate().await;
    outbox.connect_again().await;
    ids.extend(outbox.emit(10).await);
    place.gets(&ids).await;
    outbox.gate_is(true).await;
    outbox.is_drained().await;
    relay.stop().await;
    assert_eq!(place.got_once().len(), ids.len());
}

/// A stream that the server ends at the same place each time, as it does when it cannot decode what is there.
#[tokio::test]
async fn while_streams_break_before_they_bring_anything_the_gate_stays_closed_and_tries_become_rare() {
    let outbox = Outbox::new().await;
    let proxy = Proxy::before_postgres(&outbox.server.url()).await;
    proxy.cut_streams(true);
    let place = Place::fine();
    let settings = WalSettings {
        url: Some(proxy.url(&outbox.server.url())),
        lease: Duration::from_secs(4),
        ..WalSettings::default()
    };
    let began = Instant::now();
    let relay = Running::to(outbox.store_with(settings).await, &place);
    wait_until("it has tried seven times", PATIENCE, async || {
        assert!(!outbox.is_open().await, "nothing was read");
        proxy.accepted() >= 7
    })
    .await;
    assert!(began.elapsed() > Duration::from_millis(1500), "each pause is longer: {:?}", began.elapsed());
    wait_until("the relay says why", PATIENCE, async || {
        relay.metrics().closed.is_some_and(|why| why.contains("the log's stream broke"))
    })
    .await;
    proxy.cut_streams(false);
    outbox.gate_is(true).await;
    let ids = outbox.emit(3).await;
    place.gets(&ids).await;
    relay.stop().await;
}

#[tokio::test]
async fn an_idle_slot_follows_the_log_of_others() {
    let outbox = Outbox::new().await;
    let place = Place::fine();
    let relay = outbox.relay(&place).await;
    sqlx::raw_sql("CREATE DATABASE other").execute(&outbox.pool).await.unwrap();
    let other: PgConnectOptions = outbox.server.url().parse().unwrap();
    let mut other = PgConnection::connect_with(&other.database("other")).await.unwrap();
    let noise = "CREATE TABLE noise AS SELECT repeat('x', 1000) FROM generate_series(1, 20000)";
    sqlx::raw_sql(noise).execute(&mut other).await.unwrap();
    outbox.is_drained().await;
    relay.stop().await;
}
