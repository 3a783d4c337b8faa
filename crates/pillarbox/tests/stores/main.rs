//! The stores: one conformance suite for all, and what only one of them has.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod adopted;
mod alone;
mod grants;
mod held;
mod opening;
mod plan;
mod schema;

mod postgres {
    pillarbox_testkit::store_suite!(pillarbox_testkit::conformance::PostgresOutbox::create);
}

mod sqlite {
    pillarbox_testkit::store_suite!(pillarbox_testkit::conformance::SqliteOutbox::create);
}
