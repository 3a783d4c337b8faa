//! Grants: a role that only emits, and one that relays, can do what they must and no more.

use std::str::FromStr;
use std::time::Duration;

use pillarbox::delivery::{Answer, Change};
use pillarbox::store::postgres::PostgresStore;
use pillarbox::store::{
    AdminStore, Ask, Claimed, Entry, Filter, Heartbeat, Level, Marked, Paging, Replayed, Retention, Role, Selection,
    SessionLimits, State,
};
use pillarbox::{Claims, Event, Fleet, Inspect, Store, emit, emit_all, emit_once};
use pillarbox_testkit::TestDatabase;
use pillarbox_testkit::conformance::outbox::{ASK, BY_ANN, deliver, failed, judged, park};
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, Executor};
use uuid::Uuid;

/// Not everybody's outbox is in `public`, nor is everybody's role a plain word.
const SCHEMA: &str = "mailroom";
const PATIENCE: Duration = Duration::from_secs(60);

struct Office {
    database: TestDatabase,
    owner: PostgresStore,
    role: String,
    pool: PgPool,
}

impl Office {
    /// A migrated outbox, and a pool of a fresh role.
    async fn open(migrated: bool) -> Self {
        let database = TestDatabase::create().await;
        let owner = PostgresStore::connect(&database.url(), SCHEMA).await.unwrap();
        if migrated {
            owner.migrate().await.unwrap();
        }
        let role = format!("a \"{}", Uuid::new_v4().simple());
        let create = format!("CREATE ROLE {} LOGIN", quoted(&role));
        owner.pool().execute(sqlx::raw_sql(AssertSqlSafe(create))).await.unwrap();
        let options =
            PgConnectOptions::from_str(&database.url()).unwrap().username(&role).options([("search_path", SCHEMA)]);
        let pool = PgPoolOptions::new().max_connections(4).connect_with(options).await.unwrap();
        Self { database, owner, role, pool }
    }

    /// The role's own view of the outbox.
    fn store(&self) -> PostgresStore {
        PostgresStore::new(self.pool.clone(), SCHEMA).unwrap()
    }

    async fn denied(&self, statement: &'static str) {
        let error = self.pool.execute(statement).await.expect_err(statement).into_database_error().unwrap();
        assert_eq!(error.code().as_deref(), Some("42501"), "{statement}: {error}");
    }

    /// Roles belong to the whole server, so they do not go with the database.
    async fn close(self) {
        self.pool.close().await;
        let drop = format!("DROP OWNED BY {0}; DROP ROLE {0}", quoted(&self.role));
        self.owner.pool().execute(sqlx::raw_sql(AssertSqlSafe(drop))).await.unwrap();
        self.owner.pool().close().await;
        self.database.close().await;
    }
}

fn quoted(role: &str) -> String {
    format!("\"{}\"", role.replace('"', "\"\""))
}

fn placed(order: u32) -> Event {
    Event::new("Order", order, "order.placed")
}

#[tokio::test]
async fn a_role_that_emits_can_emit_in_every_way() {
    let office = Office::open(true).await;
    office.owner.grant(Role::Emit, &office.role).await.unwrap();
    // An idle relay, so that emit looks at it and notifies.
    let heartbeat =
        Heartbeat { id: Uuid::new_v4(), host: "box-1".to_owned(), in_flight: 0, idle: true, configuration: None };
    office.owner.heartbeat(&heartbeat).await.unwrap();

    let mut tx = office.pool.begin().await.unwrap();
    emit(&mut tx, placed(1)).await.unwrap();
    emit(&mut tx, placed(1)).await.unwrap_err();
    assert!(!emit_once(&mut tx, placed(1)).await.unwrap().is_new);
    emit_all(&mut tx, [placed(2), placed(3)]).await.unwrap();
    tx.execute("SELECT outbox_emit('Order', '4', 'order.placed')").await.unwrap();
    tx.execute("SELECT outbox_emit('Order', 6, 'order.placed', '{}'::json), outbox_emit('Order', 7, 'order.placed')")
        .await
        .unwrap();
    tx.execute("SELECT outbox_emit('Order', outbox_uuid7(), 'order.placed', repeatable => true)").await.unwrap();
    tx.execute(
        "INSERT INTO outbox_event (aggregate_type, aggregate_id, event_type, idempotency_key) \
         VALUES ('Order', '5', 'order.placed', 'Order:5')",
    )
    .await
    .unwrap();
    tx.commit().await.unwrap();
    assert_eq!(office.owner.remaining().await.unwrap(), 8);
    office.close().await;
}

#[tokio::test]
async fn a_role_that_emits_can_do_nothing_else() {
    let office = Office::open(true).await;
    office.owner.grant(Role::Emit, &office.role).await.unwrap();
    office.owner.emit(placed(1)).await.unwrap();
    for statement in [
        "SELECT payload FROM outbox_event",
        "SELECT * FROM outbox_event",
        "UPDATE outbox_event SET status = 'delivered'",
        "UPDATE outbox_event SET id = id RETURNING payload",
        "DELETE FROM outbox_event",
        "TRUNCATE outbox_event",
        "SELECT id FROM outbox_event FOR UPDATE",
        "SELECT * FROM outbox_delivery",
        "SELECT * FROM outbox_attempt",
        "DELETE FROM outbox_relay",
        "SELECT setval('outbox_event_seq_seq', 1)",
        "SELECT setval('outbox_idle_until', 1)",
        "SELECT nextval('outbox_idle_until')",
        "CREATE TABLE mine (id int)",
    ] {
        office.denied(statement).await;
    }
    assert!(office.store().claim(ASK).await.unwrap_err().to_string().contains("permission denied"));
    office.close().await;
}

/// Does everything that a relay and its admin do.
pub(crate) async fn relay_and_administer(store: &(impl Store + AdminStore)) {
    store.check().await.unwrap();
    for order in 0..5 {
        store.emit(placed(order)).await.unwrap();
    }
    let mut claim = store.claim(ASK).await.unwrap().into_iter();
    let mut next = || claim.next().unwrap();
    let (one, two, three, four, five) = (next(), next(), next(), next(), next());
    let tickets = [one.ticket()];
    assert_eq!(store.renew(&tickets, ASK.lease).await.unwrap(), tickets);
    let partly = judged(&two, &["a", "b"], vec![("a", Answer::Sent), ("b", failed("no"))]);
    let parked = pillarbox::delivery::Verdict::of(park("a"), 0);
    let dead = pillarbox::delivery::Verdict::of(Change::Fail { error: "no".to_owned() }, 1);
    let settlements = [deliver(one), two.settle(partly), three.settle(parked), four.settle(dead)];
    assert_eq!(store.settle(&settlements, false).await.unwrap(), []);
    assert_eq!(store.settle(&[deliver(five)], true).await.unwrap(), []);

    assert_eq!(store.parked_on().await.unwrap(), ["a"]);
    assert_eq!(store.parked_kinds("a").await.unwrap().len(), 1);
    assert_eq!(store.unpark("a", None, 10).await.unwrap(), 1);
    assert_eq!(store.sweep().await.unwrap().len(), 0);
    assert_eq!(store.remaining().await.unwrap(), 1);
    let heartbeat =
        Heartbeat { id: Uuid::new_v4(), host: "box-1".to_owned(), in_flight: 0, idle: true, configuration: None };
    store.heartbeat(&heartbeat).await.unwrap();
    assert_eq!(store.counts().await.unwrap().relays.len(), 1);
    store.farewell(heartbeat.id).await.unwrap();
    assert_eq!(store.list(&Filter::default(), &Paging::default()).await.unwrap().events.len(), 4);
    assert_eq!(store.retry(&Selection::Failed(Filter::default(), 10), BY_ANN).await.unwrap().len(), 1);
    let line = store.open_entry("ann", "replay", "what was delivered").await.unwrap();
    let delivered = Filter { state: Some(State::Delivered), ..Filter::default() };
    let delivered = store.list(&delivered, &Paging::default()).await.unwrap().events;
    let again =
        store.replay(&[delivered[0].id], None, Entry::Adding { line, unchanged_since: None }).await.unwrap()[0].1;
    let Replayed::As { id: again } = again else { panic!("{again:?}") };
    assert_eq!(store.fail(&[again], "no", BY_ANN).await.unwrap(), [(again, Marked::Failed)]);
    assert_eq!(store.audit(None, 10).await.unwrap().len(), 3);
    let retention = Retention { delivered_after: Duration::ZERO, failed_after: Duration::ZERO, batch: 10 };
    assert_eq!(store.cleanup(&retention).await.unwrap().deleted, 2);
    let claim = store.claim(Ask { limit: 1, ..ASK }).await.unwrap();
    let id = claim.iter().next().map(Claimed::ticket).unwrap().id;
    assert!(store.get(id).await.unwrap().is_some());
    std::mem::forget(claim);
    let limits = SessionLimits { idle: PATIENCE, longest: PATIENCE, most: 9 };
    store.begin_session("hash", "anna", limits).await.unwrap();
    assert_eq!(store.find_session("hash", limits).await.unwrap().as_deref(), Some("anna"));
    store.end_session("hash").await.unwrap();
    assert!(store.claim_job(Uuid::new_v4(), PATIENCE).await.unwrap().is_none());
    assert!(store.examine().await.unwrap().iter().all(|finding| finding.level != Level::Bad));
}

#[tokio::test]
async fn a_role_that_relays_can_do_all_that_a_relay_does() {
    let office = Office::open(true).await;
    office.owner.grant(Role::Relay, &office.role).await.unwrap();
    let store = office.store();
    relay_and_administer(&store).await;

    for statement in [
        "DROP TABLE outbox_event",
        "TRUNCATE outbox_event",
        "DELETE FROM outbox_migration",
        "CREATE TABLE mine (id int)",
    ] {
        office.denied(statement).await;
    }
    office.close().await;
}

#[tokio::test]
async fn printed_grants_are_those_that_are_applied() {
    let office = Office::open(true).await;
    let printed = office.owner.grants(Role::Emit, &office.role);
    assert!(printed.contains(&quoted(&office.role)) && printed.contains("\"mailroom\".outbox_event"), "{printed}");
    office.owner.pool().execute(sqlx::raw_sql(AssertSqlSafe(printed))).await.unwrap();
    let mut tx = office.pool.begin().await.unwrap();
    emit(&mut tx, placed(1)).await.unwrap();
    tx.commit().await.unwrap();
    office.close().await;
}

#[tokio::test]
async fn who_owns_a_schema_can_migrate_it_without_the_right_to_create_schemas() {
    let office = Office::open(false).await;
    let own = format!("CREATE SCHEMA {SCHEMA} AUTHORIZATION {}", quoted(&office.role));
    office.owner.pool().execute(sqlx::raw_sql(AssertSqlSafe(own))).await.unwrap();
    assert_eq!(office.store().migrate().await.unwrap().len(), 2);
    assert_eq!(office.store().migrate().await.unwrap().len(), 0);
    office.store().check().await.unwrap();
    office.close().await;
}

/// After an upgrade, a role that could relay before the second migration can use its tables.
#[tokio::test]
async fn a_role_that_relays_keeps_its_rights_when_tables_are_added() {
    let office = Office::open(true).await;
    office.owner.grant(Role::Relay, &office.role).await.unwrap();
    let before = format!(
        "DROP TABLE {SCHEMA}.outbox_job, {SCHEMA}.outbox_session; DELETE FROM {SCHEMA}.outbox_migration WHERE version = 2"
    );
    office.owner.pool().execute(sqlx::raw_sql(AssertSqlSafe(before))).await.unwrap();
    assert!(office.store().check().await.unwrap_err().to_string().contains("at version 1"));
    assert_eq!(office.owner.migrate().await.unwrap().len(), 1);
    let (store, limits) = (office.store(), SessionLimits { idle: PATIENCE, longest: PATIENCE, most: 9 });
    store.check().await.unwrap();
    store.begin_session("hash", "anna", limits).await.unwrap();
    assert_eq!(store.find_session("hash", limits).await.unwrap().as_deref(), Some("anna"));
    store.end_session("hash").await.unwrap();
    assert!(store.claim_job(Uuid::new_v4(), PATIENCE).await.unwrap().is_none());
    office.close().await;
}
