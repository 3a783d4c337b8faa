//! Failover on MariaDB: a relay follows the primary to the promoted replica, behind one address.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::store::mysql::{MysqlSettings, MysqlStore};
use pillarbox::{Event, Inspect, Relay};
use pillarbox_testkit::{PrivateMysql, Proxy, wait_until};
use sqlx::{AssertSqlSafe, Connection, MySqlConnection};

use crate::fixture::{PATIENCE, Place, all_to, impatient, while_running};

const USER: &str = "CREATE DATABASE shop; CREATE USER shop@'%'; GRANT ALL ON shop.* TO shop@'%'";

async fn run(server: &PrivateMysql, statements: &str) {
    let mut connection = MySqlConnection::connect(&server.url()).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(statements.to_owned())).execute(&mut connection).await.unwrap();
}

async fn count(server: &PrivateMysql, of: &str) -> i64 {
    let mut connection = MySqlConnection::connect(&server.url()).await.unwrap();
    let count = AssertSqlSafe(format!("SELECT count(*) FROM {of}"));
    sqlx::query_scalar(count).fetch_one(&mut connection).await.unwrap_or_default()
}

/// A primary, and a replica that has a binary log of its own, so that it can be promoted.
async fn primary_and_replica() -> (PrivateMysql, PrivateMysql) {
    let log = ("log_bin", "log");
    let primary = PrivateMysql::start_with(&[("server_id", "1"), log]).await;
    let replica =
        PrivateMysql::start_with(&[("server_id", "2"), log, ("log_slave_updates", "ON"), ("read_only", "ON")]).await;
    run(&primary, USER).await;
    let source = format!(
        "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {}, MASTER_USER = 'root', MASTER_USE_GTID = slave_pos; \
         START SLAVE",
        primary.port()
    );
    run(&replica, &source).await;
    (primary, replica)
}

/// Makes the replica the primary.
async fn promote(replica: &PrivateMysql) {
    run(replica, "STOP SLAVE; RESET SLAVE ALL; SET GLOBAL read_only = OFF").await;
}

/// The relay's store, through an address that leads to the primary.
async fn store(proxy: &Proxy) -> MysqlStore {
    let settings = MysqlSettings { deadline: Duration::from_secs(1), ..MysqlSettings::default() };
    let url = format!("mysql://shop@{}/shop", proxy.address());
    MysqlStore::connect_with(&url, settings).await.unwrap()
}

fn relay(store: &MysqlStore, place: &Place) -> Relay {
    Relay::builder(Arc::new(store.clone()))
        .settings(impatient())
        .destination(place.as_destination("a"))
        .route(all_to("a"))
        .build()
        .unwrap()
}

fn address(server: &PrivateMysql) -> String {
    format!("127.0.0.1:{}", server.port())
}

#[tokio::test]
async fn a_relay_goes_on_with_the_promoted_replica_of_a_killed_primary() {
    let (mut primary, replica) = primary_and_replica().await;
    let proxy = Proxy::start(&address(&primary)).await;
    let (store, place) = (store(&proxy).await, Place::fine());
    store.migrate().await.unwrap();
    let emit = async |order: u32| store.emit_once(Event::new("Order", order, "order.placed")).await;
    while_running(&relay(&store, &place), async {
        emit(1).await.unwrap();
        wait_until("it is delivered", PATIENCE, async || place.got().len() == 1).await;
        wait_until("the replica has it", PATIENCE, async || {
            count(&replica, "shop.outbox_event WHERE status = 'delivered'").await == 1
        })
        .await;
        primary.kill().await;
        promote(&replica).await;
        proxy.switch_to(&address(&replica));
        wait_until("events can be emitted again", PATIENCE, async || emit(2).await.is_ok()).await;
        wait_until("the relay delivers again", PATIENCE, async || place.got().len() >= 2).await;
    })
    .await;
}

#[tokio::test]
async fn connections_to_a_primary_that_became_read_only_are_given_up() {
    let (primary, replica) = primary_and_replica().await;
    let proxy = Proxy::start(&address(&primary)).await;
    let (store, place) = (store(&proxy).await, Place::fine());
    store.migrate().await.unwrap();
    let emit = async |order: u32| store.emit_once(Event::new("Order", order, "order.placed")).await;
    while_running(&relay(&store, &place), async {
        emit(1).await.unwrap();
        wait_until("it is delivered", PATIENCE, async || place.got().len() == 1).await;
        wait_until("the replica has it", PATIENCE, async || {
            count(&replica, "shop.outbox_event WHERE status = 'delivered'").await == 1
        })
        .await;
        // A switchover: the old primary stays up, and so do the connections to it.
        run(&primary, "SET GLOBAL read_only = ON").await;
        promote(&replica).await;
        proxy.switch_to(&address(&replica));
        wait_until("events can be emitted again", PATIENCE, async || emit(2).await.is_ok()).await;
        wait_until("the relay delivers again", PATIENCE, async || place.got().len() >= 2).await;
        assert_eq!(count(&replica, "shop.outbox_event").await, 2);
    })
    .await;
}
