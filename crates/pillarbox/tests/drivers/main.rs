//! Emit through every driver: the same checks, with transactions that the driver itself begins and ends.

#![allow(clippy::unwrap_used)]

mod checks;
mod diesel_async_driver;
mod diesel_driver;
mod emitter;
mod fixture;
mod logged;
mod sea_orm_driver;
mod sqlx_driver;
mod tokio_postgres_driver;

/// A test of the log, for each driver of PostgreSQL.
macro_rules! every_log {
    ($($name:ident: $driver:ty),+ $(,)?) => {
        mod log {
            $(#[tokio::test]
            async fn $name() {
                crate::logged::repeatable_events_go_into_the_log::<$driver>().await;
            })+
        }
    };
}

every_log! {
    sqlx: crate::sqlx_driver::SqlxPostgres,
    tokio_postgres: crate::tokio_postgres_driver::TokioPostgres,
    diesel: crate::diesel_driver::Diesel,
    diesel_async: crate::diesel_async_driver::DieselAsync,
    sea_orm: crate::sea_orm_driver::SeaOrmPostgres,
}

/// A test for each check, on one driver.
macro_rules! every_check {
    ($name:ident, $driver:ty) => {
        every_check!($name, $driver: rollback_emits_nothing, commit_is_claimed_as_it_was_emitted,
            answers_the_event_as_written, delays_until_its_moment, is_due_now_if_its_moment_is_over,
            refuses_a_duplicate_and_goes_on,
            refuses_an_invalid_event_and_goes_on, once_answers_the_existing, all_in_order, all_or_none,
            none_is_nothing, celery_tasks_are_claimed_as_they_were_sent);
    };
    ($name:ident, $driver:ty: $($check:ident),+) => {
        mod $name {
            $(#[tokio::test]
            async fn $check() {
                crate::checks::$check(crate::fixture::Fixture::<$driver>::open().await).await;
            })+
        }
    };
}

every_check!(sqlx_postgres, crate::sqlx_driver::SqlxPostgres);
every_check!(sqlx_mysql, crate::sqlx_driver::SqlxMysql);
every_check!(sqlx_sqlite, crate::sqlx_driver::SqlxSqlite);
every_check!(tokio_postgres, crate::tokio_postgres_driver::TokioPostgres);
every_check!(diesel, crate::diesel_driver::Diesel);
every_check!(diesel_mysql, crate::diesel_driver::DieselMysql);
every_check!(diesel_async, crate::diesel_async_driver::DieselAsync);
every_check!(sea_orm_postgres, crate::sea_orm_driver::SeaOrmPostgres);
every_check!(sea_orm_mysql, crate::sea_orm_driver::SeaOrmMysql);
every_check!(sea_orm_sqlite, crate::sea_orm_driver::SeaOrmSqlite);
