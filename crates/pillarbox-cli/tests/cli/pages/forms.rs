//! Forms with fields that do not exist, and forms that name an event twice.

use super::Scene;

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_field_is_refused_by_every_form_and_nothing_is_changed() {
    let mut scene = Scene::begin("olga").await;
    let id = scene.home.emit("1", &["\"bad\""]);
    scene.until(&id, "failed").await;
    let sent = scene.receiver.count();
    let event = |act: &str| format!("/events/{id}/{act}");
    let (retry, fail, replay) = (event("retry"), event("fail"), event("replay"));
    let forms: [(&str, &[(&str, &str)]); 11] = [
        ("/bulk", &[("action", "retry"), ("event_typ", "invoice.*")]),
        ("/bulk", &[("action", "retry"), ("id", &id)]),
        ("/chosen", &[("action", "retry"), ("id", &id), ("state", "failed")]),
        (&retry, &[("when", "later")]),
        (&retry, &[("destination", "runner")]),
        (&fail, &[("destination", "runner")]),
        (&replay, &[("to", "runner")]),
        ("/destinations/runner/pause", &[("until", "tomorrow")]),
        ("/destinations/runner/resume", &[("until", "tomorrow")]),
        ("/destinations/runner/test", &[("payload", "{}")]),
        ("/jobs/01890000-0000-7000-8000-000000000000/cancel", &[("now", "1")]),
    ];
    for (path, fields) in forms {
        let refused = scene.act(path, fields).await;
        assert_eq!(refused.status, 400, "{path} {fields:?}: {refused:?}");
        let name = fields.last().unwrap().0;
        assert!(refused.body.contains(&format!("there is no field &#34;{name}&#34; here; ")), "{path}: {refused:?}");
    }
    let refused = scene.act("/bulk", &[("action", "retry"), ("stat", "failed")]).await;
    assert!(refused.body.contains("choose from: state, event_type, aggregate_type, "), "{refused:?}");
    assert!(refused.body.contains("group_error, replay_to, rate, reason"), "{refused:?}");
    let twice = scene.act("/bulk", &[("action", "retry"), ("state", "failed"), ("state", "failed")]).await;
    assert!(twice.status == 400 && twice.body.contains("duplicate field"), "{twice:?}");
    let only = scene.act("/chosen", &[("action", "retry"), ("id", &id), ("destination", "runner")]).await;
    assert!(only.status == 400 && only.body.contains("destination is for replay only"), "{only:?}");
    assert_eq!((scene.home.state(&id).as_str(), scene.receiver.count()), ("failed", sent));
    assert!(scene.page("/jobs").await.contains("No jobs"));
    assert!(scene.page("/destinations").await.contains("id=\"pause-runner\""));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_is_chosen_twice_is_one_change() {
    let mut scene = Scene::begin("olga").await;
    let id = scene.home.emit("1", &["\"bad\""]);
    scene.until(&id, "failed").await;
    let question = scene.page(&format!("/chosen?action=retry&id={id}&id={id}")).await;
    assert!(question.contains("Retry 1 event?") && !question.contains("no longer exist"), "{question}");
    let done = scene.act("/chosen", &[("action", "retry"), ("id", &id), ("id", &id), ("back", "/events")]).await;
    assert_eq!(done.header("location"), "/events?did=retry.1.0");
}
