//! Migrate and check: the program rejects a schema that it cannot work on, with the command that fixes it.

use futures_util::future::join_all;
use pillarbox::StoreError;

use super::Outbox;

/// The first problem that a newcomer meets.
pub async fn a_missing_schema_is_refused_with_the_command_to_run(outbox: &dyn Outbox) {
    outbox.forget_schema().await;
    let error = outbox.store().check().await.unwrap_err();
    assert!(matches!(error, StoreError::NotMigrated { .. }), "{error:?}");
    assert!(error.to_string().contains("are missing") && error.to_string().contains("`pillarbox migrate`"), "{error}");
    assert!(outbox.migrate().await.unwrap() > 0);
    outbox.store().check().await.unwrap();
    outbox.emit_one().await;
    outbox.claim_one().await;
}

/// A deployment may migrate every time.
pub async fn migrating_twice_is_fine(outbox: &dyn Outbox) {
    outbox.emit_one().await;
    assert_eq!(outbox.migrate().await.unwrap(), 0);
    assert_eq!(outbox.rows("outbox_event").await, 1);
    outbox.store().check().await.unwrap();
}

/// Several replicas that start at once may each migrate.
pub async fn migrating_concurrently_is_fine(outbox: &dyn Outbox) {
    outbox.forget_schema().await;
    let all = outbox.migrate().await.unwrap();
    outbox.forget_schema().await;
    let made = join_all((0..6).map(|_| outbox.migrate())).await;
    let steps: usize = made.into_iter().map(|made| made.unwrap()).sum();
    assert_eq!(steps, all, "one of them made the tables");
    outbox.store().check().await.unwrap();
}

/// A rolling upgrade: the old program continues until the new schema requires a newer one.
pub async fn a_newer_schema_is_fine_until_it_needs_a_newer_program(outbox: &dyn Outbox) {
    outbox.pretend_migration(1000, "0.1.0").await;
    outbox.store().check().await.unwrap();
    assert_eq!(outbox.migrate().await.unwrap(), 0);
    outbox.pretend_migration(1001, "99.0.0").await;
    let error = outbox.store().check().await.unwrap_err();
    assert!(matches!(error, StoreError::ProgramTooOld { found: 1001, .. }), "{error:?}");
    assert!(error.to_string().contains("needs pillarbox 99.0.0 or newer"), "{error}");
}
