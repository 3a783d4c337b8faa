//! What is not on the path of a task: sweep, what is due next, how much waits.

use super::*;

pub(super) async fn what_has_failed_too_often_already_is_given_up_unsent(outbox: CeleryOutbox) {
    let added = outbox.add(5).await;
    for (row, set) in [
        (0, "retries = 5, updated_at = current_timestamp(6), retry_after = current_timestamp(6)"),
        (1, "retries = 7, updated_at = current_timestamp(6) - INTERVAL '1' HOUR"),
        (2, "retries = 4, updated_at = current_timestamp(6), retry_after = current_timestamp(6)"),
        (3, "retries = 9, updated_at = current_timestamp(6), retry_after = current_timestamp(6) + INTERVAL '1' HOUR"),
    ] {
        outbox.execute(&format!("UPDATE celery_outbox SET {set} WHERE id = {}", added[row])).await;
    }
    let settings = CeleryOutboxSettings { max_retries: 0, ..CeleryOutboxSettings::default() };
    assert!(outbox.store(settings).await.sweep().await.unwrap().is_empty(), "there is no limit");

    let store = store(&outbox).await;
    assert_eq!(ids(&store.claim(ASK).await.unwrap()), [added[2], added[4]]);
    let swept = store.sweep().await.unwrap();
    let mut names: Vec<&str> = swept.iter().map(|swept| swept.event.aggregate_id.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["task-1", "task-2"]);
    let dead = outbox.dead_letters().await;
    assert_eq!(dead.len(), 2);
    assert!(dead.iter().all(|(_, _, reason)| reason.as_ref() == Some(&swept[0].error)));
    assert!(swept[0].error.starts_with("max retries exceeded"), "{}", swept[0].error);
    assert!(store.sweep().await.unwrap().is_empty());
}

pub(super) async fn it_is_known_when_the_next_is_due(outbox: CeleryOutbox) {
    let store = store(&outbox).await;
    assert_eq!(store.next_due().await.unwrap(), None);
    outbox.add(1).await;
    assert_eq!(store.next_due().await.unwrap(), Some(Duration::ZERO));
    let claim = store.claim(ASK).await.unwrap();
    let due = store.next_due().await.unwrap().unwrap();
    assert!(due > STALE - Duration::from_secs(10) && due <= STALE, "{due:?}");
    outbox.execute("UPDATE celery_outbox SET schema_version = 2").await;
    assert_eq!(store.next_due().await.unwrap(), None);
    drop(claim);
}

pub(super) async fn it_is_known_how_much_waits(outbox: CeleryOutbox) {
    let store = store(&outbox).await;
    let depth = store.depth().await.unwrap();
    assert_eq!((depth.due, depth.oldest, depth.dead_letters), (0, None, 0));
    outbox.add(5).await;
    outbox.execute("UPDATE celery_outbox SET created_at = created_at - INTERVAL '1' HOUR").await;
    let claim = store.claim(Ask { limit: 2, ..ASK }).await.unwrap();
    settle(&store, claim, Change::Fail { error: "no".to_owned() }, 1).await;
    let depth = store.depth().await.unwrap();
    assert_eq!((depth.due, depth.dead_letters, store.remaining().await.unwrap()), (3, 2, 3));
    assert!(depth.oldest.unwrap() >= Duration::from_secs(3600));
}
