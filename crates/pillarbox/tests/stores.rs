//! The stores: one conformance suite for all, and what only one of them has.

mod postgres {
    pillarbox_testkit::store_suite!(pillarbox_testkit::conformance::PostgresOutbox::create);
}

mod sqlite {
    pillarbox_testkit::store_suite!(pillarbox_testkit::conformance::SqliteOutbox::create);
}
