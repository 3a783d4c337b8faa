//! Jobs and sessions of the admin, on every database.

use std::time::Duration;

use pillarbox::Event;
use pillarbox::store::mysql::MysqlStore;
use pillarbox::store::postgres::PostgresStore;
use pillarbox::store::sqlite::SqliteStore;
use pillarbox::store::{
    AdminStore, Cursor, Entry, Filter, JobAction, JobLease, JobState, JobStep, JobView, NewJob, Paging, SessionLimits,
    State,
};
use pillarbox_testkit::{TestDatabase, TestMysql};
use uuid::Uuid;

const LEASE: Duration = Duration::from_secs(60);
const NOW: Duration = Duration::ZERO;
const MOST: usize = 2;

async fn with_stores(check: impl AsyncFn(&dyn AdminStore)) {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path().join("desk.db")).await.unwrap();
    store.migrate().await.unwrap();
    check(&store).await;
    let database = TestMysql::create().await;
    let store = MysqlStore::connect(&database.url()).await.unwrap();
    store.migrate().await.unwrap();
    check(&store).await;
    let database = TestDatabase::create().await;
    let store = PostgresStore::connect(&database.url(), "public").await.unwrap();
    store.migrate().await.unwrap();
    check(&store).await;
    drop(store);
    database.close().await;
}

fn new_job(action: JobAction) -> NewJob {
    NewJob {
        id: Uuid::now_v7(),
        action,
        scope: r#"{"state": "failed"}"#.to_owned(),
        target: "state=failed".to_owned(),
        who: "olga".to_owned(),
        rate: Some(2.5),
        expected: 3,
        expected_more: true,
    }
}

async fn started(store: &dyn AdminStore, action: JobAction, lasts: Duration) -> (JobView, JobLease) {
    let token = Uuid::new_v4();
    let job = store.start_job(&new_job(action), token, lasts, MOST).await.unwrap().unwrap();
    let lease = JobLease { job: job.job.id, token, lasts };
    (job, lease)
}

/// Dead letters, their ids, and a place in their list.
async fn dead_letters(store: &dyn AdminStore, count: u32) -> (Vec<Uuid>, Option<Cursor>) {
    let mut ids = Vec::new();
    for number in 0..count {
        let event = Event::new("Order", number, "order.placed").repeatable();
        ids.push(store.emit(event).await.unwrap().id);
    }
    store.fail(&ids, "no", Entry::Anew { who: "olga", target: "all" }).await.unwrap();
    let filter = Filter { state: Some(State::Failed), ..Filter::default() };
    let page = store.list(&filter, &Paging { limit: 1, oldest_first: true, ..Paging::default() }).await.unwrap();
    (ids, page.next)
}

async fn due(store: &dyn AdminStore) -> u64 {
    store.depth().await.unwrap().due
}

/// By the database's clock a moment passes between what was written before a job and the job.
async fn later(store: &dyn AdminStore) {
    let before = store.open_entry("clock", "look", "").await.unwrap();
    let at = async |line: i64| store.audit(Some(line + 1), 1).await.unwrap()[0].done_at;
    let began = at(before).await;
    pillarbox_testkit::wait_until("time passes", LEASE, async || {
        let line = store.open_entry("clock", "look", "").await.unwrap();
        at(line).await > began
    })
    .await;
}

#[tokio::test]
async fn a_job_is_kept_as_it_was_started_and_batches_move_it() {
    with_stores(async |store| {
        let (ids, place) = dead_letters(store, 3).await;
        later(store).await;
        let (job, lease) = started(store, JobAction::Replay, LEASE).await;
        assert_eq!((job.state, job.done, job.reached.clone()), (JobState::Running, 0, None));
        let step = JobStep { lease, job: &job, ids: &ids[..2], only: None, next: place.as_ref() };
        assert_eq!(store.step_job(&step).await.unwrap(), Some(2));
        let found = store.job(job.job.id).await.unwrap().unwrap();
        assert_eq!((found.done, found.changed, found.reached), (2, 2, place));
        assert_eq!((found.job.who.as_str(), found.job.rate, found.job.expected_more), ("olga", Some(2.5), true));
        assert!(found.job.scope.contains("failed") && found.ended_at.is_none() && found.took < LEASE);
        let last = JobStep { lease, job: &job, ids: &ids[2..], only: None, next: None };
        assert_eq!(store.step_job(&last).await.unwrap(), Some(1));
        let found = store.job(job.job.id).await.unwrap().unwrap();
        assert_eq!((found.state, found.done, found.ended_at.is_some()), (JobState::Done, 3, true));
        assert_eq!(store.step_job(&last).await.unwrap(), None, "it has ended");
        assert_eq!(due(store).await, 3);
        let audit = store.audit(None, 1).await.unwrap();
        assert_eq!((audit[0].what.as_str(), audit[0].events), ("replay", Some(3)));
        assert!(store.claim_job(Uuid::new_v4(), LEASE).await.unwrap().is_none());
    })
    .await;
}

#[tokio::test]
async fn a_lost_lease_changes_nothing_and_another_process_goes_on() {
    with_stores(async |store| {
        let (ids, place) = dead_letters(store, 2).await;
        later(store).await;
        for action in [JobAction::Replay, JobAction::Retry, JobAction::Fail { reason: "no".to_owned() }] {
            let (job, lost) = started(store, action.clone(), LEASE).await;
            assert!(store.claim_job(Uuid::new_v4(), LEASE).await.unwrap().is_none(), "somebody has it");
            assert!(store.renew_job(JobLease { lasts: NOW, ..lost }).await.unwrap());
            let token = Uuid::new_v4();
            let taken = async || store.claim_job(token, LEASE).await.unwrap();
            let mut found = None;
            pillarbox_testkit::wait_until("the lease has run out", LEASE, async || {
                found = taken().await;
                found.is_some()
            })
            .await;
            let found = found.unwrap();
            assert_eq!((found.job.id, &found.job.action), (job.job.id, &action));
            let before = due(store).await;
            let late = JobStep { lease: lost, job: &job, ids: &ids, only: None, next: place.as_ref() };
            assert_eq!(store.step_job(&late).await.unwrap(), None);
            assert!(!store.renew_job(lost).await.unwrap() && !store.fail_job(lost, "late").await.unwrap());
            assert_eq!(due(store).await, before, "{action:?}: nothing was done");
            assert_eq!(store.job(job.job.id).await.unwrap().unwrap().done, 0);
            let lease = JobLease { job: job.job.id, token, lasts: LEASE };
            assert!(store.fail_job(lease, "the end").await.unwrap());
            let ended = store.job(job.job.id).await.unwrap().unwrap();
            assert_eq!((ended.state, ended.error.as_str()), (JobState::Failed, "the end"));
        }
    })
    .await;
}

#[tokio::test]
async fn a_cancelled_job_does_no_further_batch_and_only_so_many_run() {
    with_stores(async |store| {
        let (ids, _) = dead_letters(store, 1).await;
        later(store).await;
        let (job, lease) = started(store, JobAction::Retry, LEASE).await;
        let (other, _) = started(store, JobAction::Retry, LEASE).await;
        let many = store.start_job(&new_job(JobAction::Retry), Uuid::new_v4(), LEASE, MOST).await.unwrap();
        assert!(many.is_none(), "two are running");
        assert!(store.cancel_job(job.job.id, "vera").await.unwrap());
        assert!(!store.cancel_job(job.job.id, "vera").await.unwrap(), "it has ended");
        let audit = store.audit(None, 1).await.unwrap();
        assert_eq!((audit[0].who.as_str(), audit[0].target.as_str()), ("vera", "retry state=failed"));
        let step = JobStep { lease, job: &job, ids: &ids, only: None, next: None };
        assert_eq!(store.step_job(&step).await.unwrap(), None);
        assert_eq!(store.depth().await.unwrap().failed, 1);
        let listed: Vec<_> = store.jobs(10).await.unwrap().iter().map(|job| (job.job.id, job.state)).collect();
        assert_eq!(listed, [(other.job.id, JobState::Running), (job.job.id, JobState::Cancelled)]);
        assert!(store.job(Uuid::now_v7()).await.unwrap().is_none());
    })
    .await;
}

#[tokio::test]
async fn a_session_ends_when_it_is_idle_or_old_or_ended_or_one_too_many() {
    with_stores(async |store| {
        let limits = SessionLimits { idle: LEASE, longest: LEASE, most: 2 };
        store.begin_session("one", "anna", limits).await.unwrap();
        assert_eq!(store.find_session("one", limits).await.unwrap().as_deref(), Some("anna"));
        assert_eq!(store.find_session("another", limits).await.unwrap(), None);
        let idle = SessionLimits { idle: NOW, ..limits };
        let old = SessionLimits { longest: NOW, ..limits };
        for ended in [idle, old] {
            assert_eq!(store.find_session("one", ended).await.unwrap(), None);
        }
        for hash in ["two", "three"] {
            later(store).await;
            store.begin_session(hash, "bert", limits).await.unwrap();
        }
        assert_eq!(store.find_session("one", limits).await.unwrap(), None, "two were used later");
        assert_eq!(store.find_session("two", limits).await.unwrap().as_deref(), Some("bert"));
        store.end_session("two").await.unwrap();
        assert_eq!(store.find_session("two", limits).await.unwrap(), None);
        later(store).await;
        store.begin_session("four", "anna", SessionLimits { idle: NOW, ..limits }).await.unwrap();
        assert_eq!(store.find_session("three", limits).await.unwrap(), None, "those that have ended are removed");
    })
    .await;
}
