//! The receiver that the tests of all kits share: the body of an event says what its handler does.
//!
//! `python/tests/inbox` starts it with `DATABASE_URL`, `PORT` and `INBOX_KEYS`, and kills it.

use std::path::PathBuf;
use std::str::FromStr as _;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use axum::extract::{Request, State};
use axum::routing::post;
use axum::{Router, serve};
use pillarbox_inbox::{Answer, Database, HandlerError, Inbox, create_table};
use serde::Deserialize;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, MySqlPool, PgPool, Pool};

#[derive(Default, Deserialize)]
#[serde(default)]
struct Orders {
    sql: Vec<String>,
    ignore: bool,
    meet: Option<PathBuf>,
    count: usize,
    then: Vec<String>,
    call: Option<u16>,
    database: Option<String>,
    r#do: String,
}

macro_rules! run {
    ($connection:expr, $statement:expr) => {
        (&mut *$connection).execute(sqlx::raw_sql(AssertSqlSafe($statement))).await
    };
}

/// Writes a row, runs statements of the body, and fails if it is told to.
macro_rules! handler {
    () => {
        |event, connection| {
            Box::pin(async move {
                let orders: Orders = event.json().unwrap_or_default();
                run!(connection, format!("INSERT INTO handled (id) VALUES ('{}')", event.id()))?;
                for statement in orders.sql {
                    let done = run!(connection, statement);
                    if !orders.ignore {
                        done?;
                    }
                }
                if let Some(place) = &orders.meet {
                    meet(place, event.id(), orders.count).await?;
                }
                for statement in orders.then {
                    run!(connection, statement)?;
                }
                if let Some(port) = orders.call {
                    tokio::net::TcpStream::connect(("127.0.0.1", port)).await?;
                }
                if let Some(address) = orders.database {
                    connect(&address).await?;
                }
                if orders.r#do == "roll back" {
                    run!(connection, "ROLLBACK".to_owned())?;
                }
                match orders.r#do.as_str() {
                    "fail" => Err("the handler was told to fail".into()),
                    "never" => Err(HandlerError::never("the handler was told to")),
                    _ => Ok(()),
                }
            })
        }
    };
}

/// Waits until `count` files are there, one of them this handler's.
async fn meet(place: &std::path::Path, name: &str, count: usize) -> anyhow::Result<()> {
    std::fs::write(place.join(name), "")?;
    let deadline = Instant::now() + Duration::from_secs(30);
    while std::fs::read_dir(place)?.count() < count {
        anyhow::ensure!(Instant::now() < deadline, "fewer than {count} in {}", place.display());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

/// Connects to another database.
async fn connect(address: &str) -> Result<(), sqlx::Error> {
    if address.starts_with("mysql:") {
        sqlx::MySqlConnection::connect(address).await?.close().await
    } else {
        sqlx::PgConnection::connect(address).await?.close().await
    }
}

async fn on_postgres(State((inbox, pool)): State<(Inbox, PgPool)>, request: Request) -> Answer {
    inbox.receive_request(&pool, request, handler!()).await
}

async fn on_mysql(State((inbox, pool)): State<(Inbox, MySqlPool)>, request: Request) -> Answer {
    inbox.receive_request(&pool, request, handler!()).await
}

async fn on_sqlite(State((inbox, pool)): State<(Inbox, sqlx::SqlitePool)>, request: Request) -> Answer {
    inbox.receive_request(&pool, request, handler!()).await
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn inbox() -> anyhow::Result<Inbox> {
    let keys = variable("INBOX_KEYS").context("INBOX_KEYS is not set")?;
    let mut inbox = Inbox::new("tests", keys.split_whitespace())?.wait(wait()?);
    if let Some(most) = variable("INBOX_MAX_BODY") {
        inbox = inbox.max_body(most.parse()?);
    }
    if let Some(file) = variable("INBOX_CLOCK") {
        inbox = inbox.clock(move || clock(&file).unwrap_or_else(SystemTime::now));
    }
    Ok(inbox)
}

fn clock(file: &str) -> Option<SystemTime> {
    let seconds = std::fs::read_to_string(file).ok()?.trim().parse().ok()?;
    Some(UNIX_EPOCH + Duration::from_secs_f64(seconds))
}

fn wait() -> anyhow::Result<Duration> {
    Ok(Duration::from_secs(variable("INBOX_WAIT").as_deref().unwrap_or("5").parse()?))
}

async fn created<DB: Database>(pool: Pool<DB>) -> anyhow::Result<Pool<DB>> {
    create_table(&pool).await?;
    Ok(pool)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().init();
    let address = variable("DATABASE_URL").context("DATABASE_URL is not set")?;
    let inbox = inbox()?;
    let app: Router = if address.starts_with("postgres:") {
        let pool = created(PgPool::connect(&address).await?).await?;
        Router::new().route("/events", post(on_postgres)).with_state((inbox, pool))
    } else if address.starts_with("mysql:") {
        let pool = created(MySqlPool::connect(&address).await?).await?;
        Router::new().route("/events", post(on_mysql)).with_state((inbox, pool))
    } else {
        let options = SqliteConnectOptions::from_str(&address)?.busy_timeout(wait()?);
        // A database that was moved away is not noticed on a connection that is open.
        let closing = SqlitePoolOptions::new().after_release(|_, _| Box::pin(async { Ok(false) }));
        let pool = created(closing.connect_with(options).await?).await?;
        Router::new().route("/events", post(on_sqlite)).with_state((inbox, pool))
    };
    let port: u16 = variable("PORT").context("PORT is not set")?.parse()?;
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    serve(listener, app).await?;
    Ok(())
}
