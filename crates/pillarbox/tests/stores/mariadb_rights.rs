//! Rights on MariaDB: an account that only emits, and one that relays, can do what they must and no more, and a missing right is
//! named with its GRANT.

use pillarbox::store::mysql::MysqlStore;
use pillarbox::store::{Level, Role};
use pillarbox::{Claims, Event, Inspect, emit, emit_all, emit_once};
use pillarbox_testkit::conformance::outbox::ASK;
use pillarbox_testkit::conformance::{MysqlOutbox, Outbox};
use sqlx::{AssertSqlSafe, Executor, MySqlPool};
use uuid::Uuid;

use crate::grants::relay_and_administer;

/// A migrated outbox, and an account without rights on it.
struct Office {
    outbox: MysqlOutbox,
    user: String,
}

impl Office {
    async fn open() -> Self {
        let outbox = MysqlOutbox::create().await;
        // Not everybody's account is a plain word.
        let user = format!("o'{}", &Uuid::new_v4().simple().to_string()[..20]);
        outbox.execute(&format!("CREATE USER '{}'@'%' IDENTIFIED BY 'hunter2'", user.replace('\'', "''"))).await;
        Self { outbox, user }
    }

    fn url(&self) -> String {
        self.outbox.url().replace("root@", &format!("{}:hunter2@", self.user.replace('\'', "%27")))
    }

    async fn store(&self) -> MysqlStore {
        MysqlStore::connect(&self.url()).await.unwrap()
    }

    async fn execute(&self, statement: &str) -> Result<(), u16> {
        let pool = MySqlPool::connect_lazy(&self.url()).unwrap();
        let done = pool.execute(AssertSqlSafe(statement.to_owned())).await;
        done.map(drop).map_err(|error| {
            let error = error.into_database_error().unwrap();
            error.downcast_ref::<sqlx::mysql::MySqlDatabaseError>().number()
        })
    }

    /// Grants these rights, such as `SELECT ON outbox_event`.
    async fn allow(&self, rights: &str) {
        self.outbox.execute(&format!("GRANT {rights} TO '{}'@'%'", self.user.replace('\'', "''"))).await;
    }

    /// Accounts belong to the whole server, so they do not go with the database.
    async fn close(self) {
        self.outbox.execute(&format!("DROP USER '{}'@'%'", self.user.replace('\'', "''"))).await;
    }
}

fn placed(order: u32) -> Event {
    Event::new("Order", order, "order.placed")
}

#[tokio::test]
async fn an_account_that_emits_can_emit_in_every_way_and_do_nothing_else() {
    let office = Office::open().await;
    office.outbox.mysql().grant(Role::Emit, &office.user).await.unwrap();
    let pool = MySqlPool::connect_lazy(&office.url()).unwrap();
    let mut tx = pool.begin().await.unwrap();
    emit(&mut tx, placed(1)).await.unwrap();
    emit(&mut tx, placed(1)).await.unwrap_err();
    assert!(!emit_once(&mut tx, placed(1)).await.unwrap().is_new);
    emit_all(&mut tx, [placed(2), placed(1), placed(3)]).await.unwrap_err();
    emit_all(&mut tx, [placed(2), placed(3)]).await.unwrap();
    tx.execute("CALL outbox_emit('Order', '4', 'order.placed', NULL, NULL, NULL, NULL, NULL)").await.unwrap();
    tx.execute(
        "INSERT INTO outbox_event (aggregate_type, aggregate_id, event_type) VALUES ('Order', '5', 'order.placed')",
    )
    .await
    .unwrap();
    tx.commit().await.unwrap();
    office.store().await.emit(placed(6)).await.unwrap();
    assert_eq!(office.outbox.store().remaining().await.unwrap(), 6);

    for statement in [
        "SELECT payload FROM outbox_event",
        "UPDATE outbox_event SET status = 'delivered'",
        "UPDATE outbox_event SET max_attempts = 0",
        "DELETE FROM outbox_event",
        "TRUNCATE outbox_event",
        "SELECT * FROM outbox_delivery",
        "DELETE FROM outbox_relay",
        "CREATE TABLE mine (id int)",
    ] {
        let number = office.execute(statement).await.expect_err(statement);
        assert!([1142, 1143].contains(&number), "{statement}: {number}");
    }
    office.close().await;
}

#[tokio::test]
async fn an_account_that_relays_can_do_all_that_a_relay_does() {
    let office = Office::open().await;
    let printed = office.outbox.mysql().grants(Role::Relay, &office.user);
    assert!(printed.contains(&format!("TO 'o''{}'@'%';", &office.user[2..])), "{printed}");
    // What people pipe into a client is what is applied.
    office.outbox.execute(&printed).await;
    relay_and_administer(&office.store().await).await;
    for statement in ["DROP TABLE outbox_event", "TRUNCATE outbox_event", "DELETE FROM outbox_migration"] {
        assert_eq!(office.execute(statement).await, Err(1142), "{statement}");
    }
    office.close().await;
}

#[tokio::test]
async fn an_account_that_does_not_exist_is_not_created() {
    let outbox = MysqlOutbox::create().await;
    let user = format!("nobody-{}", &Uuid::new_v4().simple().to_string()[..20]);
    let error = outbox.mysql().grant(Role::Relay, &user).await.unwrap_err().to_string();
    assert!(error.contains(&format!("the account '{user}'@'%' does not exist; create it: CREATE USER")), "{error}");
    let count = format!("SELECT count(*) FROM mysql.user WHERE user = '{user}'");
    let count: i64 = sqlx::query_scalar(AssertSqlSafe(count)).fetch_one(outbox.pool()).await.unwrap();
    assert_eq!(count, 0);
}

#[tokio::test]
async fn a_missing_right_is_named_with_its_grant() {
    let office = Office::open().await;
    let account = format!("'o''{}'@'%'", &office.user[2..]);
    let name = office.outbox.url().rsplit('/').next().unwrap().to_owned();

    let error = MysqlStore::connect(&office.url()).await.unwrap_err().to_string();
    assert!(error.contains(&format!("lacks rights on {name}")) && error.contains("GRANT "), "{error}");
    let error = MysqlStore::connect(&office.url().replace("hunter2", "hunter3")).await.unwrap_err().to_string();
    assert!(error.contains("check the user, the password") && !error.contains("hunter"), "{error}");

    office.allow("SELECT ON outbox_event").await;
    office.allow("SELECT ON outbox_delivery").await;
    office.outbox.emit(vec![placed(1)]).await;
    let store = office.store().await;
    let error = store.claim(ASK).await.unwrap_err().to_string();
    let expected = format!(
        "the user \"{}\" lacks UPDATE on outbox_event; run as an administrator: \
         GRANT UPDATE ON `{name}`.`outbox_event` TO {account}",
        office.user
    );
    assert!(error.ends_with(&expected), "{error}\n{expected}");
    let error = store.migrate().await.unwrap_err().to_string();
    assert!(error.ends_with(&format!("GRANT CREATE ON `{name}`.* TO {account}")), "{error}");

    // The named grants are enough.
    let mut granted = 0;
    while let Err(error) = store.claim(ASK).await {
        assert!(granted < 5, "{error}");
        granted += 1;
        let error = error.to_string();
        office.outbox.execute(error.split_once("administrator: ").unwrap().1).await;
    }
    office.allow("SELECT ON outbox_migration").await;
    let findings = store.examine().await.unwrap();
    let rights = findings.iter().find(|finding| finding.about == "rights").unwrap();
    assert!(rights.level == Level::Bad && rights.found.contains("DELETE on outbox_event"), "{rights:?}");
    assert!(!rights.found.contains("UPDATE on outbox_event,") && rights.fix.contains("--relay-role"), "{rights:?}");
    office.close().await;
}
