//! On MariaDB: accounts with exactly their rights emit, relay and administer; every command and every page works.

use pillarbox_testkit::mysql::{TestMysql, shared_url};
use pillarbox_testkit::process::Program;
use pillarbox_testkit::receiver::{Answer, Receiver};
use pillarbox_testkit::wait_until;
use sqlx::{AssertSqlSafe, Connection, Executor, MySqlConnection};
use uuid::Uuid;

use crate::access::{PASSWORD, address, with_users};
use crate::client::Client;
use crate::delivering::PATIENCE;
use crate::home::Home;

/// An account of one test, with a password.
struct Account {
    name: String,
    server: MySqlConnection,
}

impl Account {
    async fn create() -> Self {
        let name = format!("user_{}", &Uuid::new_v4().simple().to_string()[..20]);
        let mut server = MySqlConnection::connect(&shared_url()).await.unwrap();
        server.execute(AssertSqlSafe(format!("CREATE USER {name} IDENTIFIED BY 'hunter2'"))).await.unwrap();
        Self { name, server }
    }

    fn url(&self, database: &TestMysql) -> String {
        database.url().replace("root@", &format!("{}:hunter2@", self.name))
    }

    /// Accounts belong to the whole server, so they do not go with the database.
    async fn drop(mut self) {
        self.server.execute(AssertSqlSafe(format!("DROP USER {}", self.name))).await.unwrap();
    }
}

/// Changes the URL of the database. The last value of a variable counts.
fn connect_as(home: &mut Home, url: &str) {
    home.set("PILLARBOX_DATABASE_URL", url);
}

#[tokio::test(flavor = "multi_thread")]
async fn accounts_with_their_rights_emit_relay_and_administer() {
    let (database, receiver) = (TestMysql::create().await, Receiver::start().await);
    receiver.answer_with(|_| Answer::status(410).body("no more"));
    let (emitter, relay) = (Account::create().await, Account::create().await);
    let (mut home, _) = with_users("");
    let admin = std::fs::read_to_string(home.path("pillarbox.toml")).unwrap();
    home.write(
        "pillarbox.toml",
        &format!(
            "[destinations.runner]\nkind = \"http\"\nurl = \"{}\"\nallow_private = true\n\
             [[routes]]\nevents = \"order.*\"\nto = [\"runner\"]\n[admin]{}",
            receiver.url("/events"),
            admin.split_once("[admin]").unwrap().1
        ),
    );
    connect_as(&mut home, &database.url());
    let unmigrated = home.run(&["stats"]);
    assert!(unmigrated.code == 1 && unmigrated.err.contains("`pillarbox migrate`"), "{unmigrated:?}");
    let printed = home.run(&["migrate", "--emit-role", &emitter.name]).succeeded();
    assert!(printed.err.starts_with("applied 0001 outbox to mysql://"), "{printed:?}");
    assert!(printed.err.ends_with("nothing was granted; run the statements, or add --apply\n"), "{printed:?}");
    assert!(printed.out.contains(&format!("`.outbox_event TO '{}'@'%';", emitter.name)), "{printed:?}");
    home.run(&["migrate", "--emit-role", &emitter.name, "--relay-role", &relay.name, "--apply"]).succeeded();
    let nobody = home.run(&["migrate", "--relay-role", "nobody_at_all", "--apply"]);
    assert!(nobody.code == 1 && nobody.err.contains("'nobody_at_all'@'%' does not exist"), "{nobody:?}");

    connect_as(&mut home, &emitter.url(&database));
    let id = home.emit("1", &[]);
    assert_eq!(home.json(&["emit", "Order", "1", "order.placed", "--once"])["id"], id.as_str());
    let denied = home.run(&["events", "list"]);
    assert_eq!(denied.code, 1);
    assert!(denied.err.contains("lacks SELECT") && denied.err.contains("GRANT SELECT"), "{denied:?}");
    assert!(!denied.err.contains("hunter2"), "{denied:?}");

    connect_as(&mut home, &relay.url(&database));
    let mut command = home.command(&["relay"]);
    command.env("PILLARBOX_ADMIN_LISTEN", "127.0.0.1:0");
    let mut program = Program::start(command);
    let mut client = Client::new(&address(&program).await);
    wait_until("it is a dead letter", PATIENCE, async || home.state(&id) == "failed").await;
    assert_eq!(client.log_in("olga", PASSWORD).await.status, 303);
    let event = format!("/events/{id}");
    for (path, expected) in [
        ("/", "runner"),
        ("/events", id.as_str()),
        ("/events?state=failed&search=order", id.as_str()),
        ("/search?q=1", id.as_str()),
        (event.as_str(), "410"),
        ("/dead-letters", "order.placed"),
        ("/destinations", "runner"),
        ("/jobs", "Jobs"),
        ("/audit", "Audit"),
    ] {
        let page = client.get(path).await;
        let found = page.body.contains(expected) || page.header("location").contains(expected);
        assert!(page.status < 400 && found, "{path}: {page:?}");
    }
    receiver.answer_with(|_| Answer::ok());
    let csrf = client.csrf().await;
    let retried = client.post(&format!("{event}/retry"), &[("csrf", &csrf)]).await;
    assert_eq!(retried.status, 303, "{retried:?}");
    wait_until("it is delivered", PATIENCE, async || home.state(&id) == "delivered").await;
    assert!(client.get("/audit").await.body.contains("olga"));
    commands_work(&home, &id);
    assert!(program.terminate(PATIENCE).await.unwrap().success());
    assert!(program.lines().iter().all(|line| !line.contains("hunter2")), "{:?}", program.lines());
    emitter.drop().await;
    relay.drop().await;
}

/// Runs the commands that the test around it does not.
fn commands_work(home: &Home, delivered: &str) {
    let doctor = home.run(&["doctor"]).succeeded();
    assert!(doctor.out.contains("has the rights of a relay"), "{doctor:?}");
    assert_eq!(home.json(&["events", "list", "--state", "delivered"])["events"][0]["id"], delivered);
    assert_eq!(home.json(&["stats"])["delivered"], 1);
    assert!(home.run(&["top", "--once"]).succeeded().out.contains("runner"));
    assert!(home.run(&["check-config"]).succeeded().out.contains(":***@"));
    home.run(&["dead-letters"]).succeeded();
    for action in ["pause", "resume"] {
        home.run(&["destinations", action, "runner"]).succeeded();
    }
    home.run(&["events", "replay", delivered]).succeeded();
    let later = home.emit("2", &["--deliver-at", "2100-01-01T00:00:00Z"]);
    home.run(&["events", "fail", &later, "--reason", "no"]).succeeded();
    assert_eq!(home.state(&later), "failed");
    assert_eq!(home.json(&["events", "retry", "--failed", "--yes"])["due"], 1);
    home.run(&["sweep", "--all"]).succeeded();
    wait_for_delivery(home, &later);
    home.run(&["cleanup", "--delivered-after", "0s"]).succeeded();
    assert_eq!(home.json(&["stats"])["delivered"], 0);
}

/// Waits for events that the relay beside this test has claimed.
fn wait_for_delivery(home: &Home, id: &str) {
    let deadline = std::time::Instant::now() + PATIENCE;
    while home.state(id) != "delivered" || home.json(&["stats"])["due"] != 0 {
        assert!(std::time::Instant::now() < deadline, "{:?}", home.run(&["events", "show", id]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_runs_on_an_empty_database_and_cleans_up() {
    let database = TestMysql::create().await;
    let (home, url) = (Home::new(), database.url());
    let demo = ["demo", "--orders", "30", "--seed", "7", "--database", &url];
    let verdict = home.json(&demo);
    assert!(verdict["ok"] == true && verdict["rolled_back"].as_u64() > Some(0), "{verdict}");
    let mut server = MySqlConnection::connect(&url).await.unwrap();
    let count = async |server: &mut MySqlConnection, what: &str| -> i64 {
        let count = format!("SELECT count(*) FROM {what}");
        sqlx::query_scalar(AssertSqlSafe(count)).fetch_one(server).await.unwrap()
    };
    assert_eq!(count(&mut server, "outbox_event").await, 0);
    let shop = "information_schema.TABLES WHERE TABLE_SCHEMA = database() AND TABLE_NAME LIKE '%orders'";
    assert_eq!(count(&mut server, shop).await, 0);

    // An outbox in use is left alone.
    server
        .execute(
            "INSERT INTO outbox_event (aggregate_type, aggregate_id, event_type) VALUES ('Order', '7', 'order.placed')",
        )
        .await
        .unwrap();
    let refused = home.run(&demo);
    assert!(refused.code == 1 && refused.err.contains("has 1 event; name a database"), "{refused:?}");
    assert_eq!(count(&mut server, "outbox_event WHERE status = 'pending'").await, 1);
}

#[test]
fn a_database_that_is_not_there_is_told_of_without_the_password() {
    let mut home = Home::new();
    let url = shared_url().replace("root@", "root:hunter2@");
    connect_as(&mut home, &url);
    home.set("RUST_LOG", "trace");
    for arguments in [&["stats"][..], &["demo", "--database", &url]] {
        let done = home.run(arguments);
        assert_eq!(done.code, 1);
        assert!(done.err.contains("connection to MariaDB or MySQL at 127.0.0.1:"), "{done:?}");
        assert!(!done.err.contains("hunter2"), "{done:?}");
    }
}
