//! The admin's pages as somebody without JavaScript has them: read, followed from link to link, and acted on by forms.

use pillarbox_testkit::process::Program;
use pillarbox_testkit::receiver::{Answer, Receiver};
use pillarbox_testkit::wait_until;

use crate::access::{PASSWORD, address, with_users};
use crate::client::Client;
use crate::delivering::PATIENCE;
use crate::home::Home;

#[path = "pages/forms.rs"]
mod forms;
#[path = "pages/overview.rs"]
mod overview;

const SCRIPT: &str = "<script>alert('x')</script>";

/// A relay that serves the admin, a receiver that refuses what is said to be bad, and somebody who is logged in.
struct Scene {
    receiver: Receiver,
    home: Home,
    relay: Program,
    client: Client,
    csrf: String,
}

impl Scene {
    async fn begin(user: &str) -> Self {
        let receiver = Receiver::start().await;
        refuse_bad(&receiver);
        let (home, _) = with_users("mask = [\"$.card.number\"]");
        let config = std::fs::read_to_string(home.path("pillarbox.toml")).unwrap();
        let (_, admin) = config.split_once("[admin]").unwrap();
        home.write(
            "pillarbox.toml",
            &format!(
                "[relay]\npoll_interval = \"50ms\"\non_delivered = \"keep\"\n[relay.retry]\nbase = \"20ms\"\nmax_attempts = 2\n\
                 [destinations.runner]\nkind = \"http\"\nurl = \"{}\"\nbearer = \"topsecret\"\nallow_private = true\n\
                 [[routes]]\nevents = \"order.*\"\nto = [\"runner\"]\n[admin]{admin}",
                receiver.url("/in")
            ),
        );
        let mut command = home.command(&["relay"]);
        command.env("PILLARBOX_ADMIN_LISTEN", "127.0.0.1:0");
        let relay = Program::start(command);
        let mut client = Client::new(&address(&relay).await);
        assert_eq!(client.log_in(user, PASSWORD).await.status, 303);
        let csrf = client.csrf().await;
        Self { receiver, home, relay, client, csrf }
    }

    async fn page(&mut self, path: &str) -> String {
        let answer = self.client.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.body
    }

    async fn act(&mut self, path: &str, fields: &[(&str, &str)]) -> crate::client::Answer {
        let csrf = self.csrf.clone();
        self.client.post(path, &[fields, &[("csrf", &csrf)]].concat()).await
    }

    async fn until(&self, id: &str, state: &str) {
        wait_until(&format!("it is {state}"), PATIENCE, async || self.home.state(id) == state).await;
    }
}

fn refuse_bad(receiver: &Receiver) {
    receiver.answer_with(|request| {
        let bad = String::from_utf8_lossy(&request.body).contains("bad");
        if bad { Answer::status(500) } else { Answer::ok() }
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_can_be_read_by_a_viewer_who_is_offered_nothing_to_do() {
    let mut scene = Scene::begin("vera").await;
    let id = scene.home.emit("1", &["\"bad\""]);
    scene.until(&id, "failed").await;
    let event = format!("/events/{id}");
    for path in ["/", "/events", "/events?state=failed", &event, "/dead-letters", "/destinations", "/jobs", "/audit"] {
        let page = scene.page(path).await;
        assert!(page.contains("<h1"), "{path}");
        let forms = page.matches("method=\"post\"").count();
        assert_eq!(forms, 1, "only the one to log out: {path}");
        assert!(!page.contains("/bulk") && !page.contains(" style=") && !page.contains("<script>"), "{path}");
    }
    for path in ["retry", "fail", "replay"] {
        let refused = scene.act(&format!("{event}/{path}"), &[]).await;
        assert!(refused.status == 403 && refused.body.contains("vera is a viewer"), "{refused:?}");
    }
    for path in ["/destinations/runner/pause", "/destinations/runner/resume", "/destinations/runner/test", "/bulk"] {
        assert_eq!(scene.act(path, &[("action", "retry")]).await.status, 403, "{path}");
    }
    assert_eq!(scene.client.get("/bulk?action=retry").await.status, 403);
    assert_eq!(scene.client.get(&format!("/chosen?action=retry&id={id}")).await.status, 403);
    assert_eq!(scene.client.get(&format!("{event}/replay")).await.status, 403);
    assert_eq!(scene.act("/chosen", &[("action", "retry"), ("id", &id)]).await.status, 403);
    assert_eq!(scene.home.state(&id), "failed");
    assert!(scene.page("/audit").await.contains("No actions yet"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_told_with_all_there_is_to_know_and_nothing_that_is_secret() {
    let mut scene = Scene::begin("olga").await;
    let payload = format!(r#"{{"note":"{SCRIPT} bad","card":{{"number":"4111111111111111"}},"total":1.10}}"#);
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let header = format!("traceparent=00-{trace}-00f067aa0ba902b7-01");
    let id = scene.home.emit("77", &[&payload, "--header", &header]);
    scene.until(&id, "failed").await;
    let page = scene.page(&format!("/events/{id}")).await;
    let told = [
        "order.placed",
        "Order 77",
        &id,
        trace,
        "Attempt 1 to runner failed",
        "Attempt 2 to runner failed",
        "Failed for good",
    ];
    for part in told.into_iter().chain(["status 500", "curl -X POST", "1.10", "id=\"do-retry\"", "id=\"do-replay\""]) {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("<script>alert") && page.contains("&#60;script&#62;alert"), "{page}");
    assert!(!page.contains("4111111111111111") && !page.contains("topsecret"), "{page}");
    let whole = scene.client.get(&format!("/events/{id}/payload")).await;
    assert_eq!(whole.header("content-disposition"), format!("attachment; filename=\"{id}.json\""));
    assert_eq!((whole.header("content-type"), whole.header("x-content-type-options")), ("application/json", "nosniff"));
    assert!(!whole.body.contains("4111111111111111") && whole.json()["note"].as_str().unwrap().contains(SCRIPT));
    assert_eq!(scene.client.get("/events/01890000-0000-7000-8000-000000000000").await.status, 404);
    assert_eq!(scene.client.get("/events/x").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_payload_is_shown_cut_and_saved_whole() {
    let mut scene = Scene::begin("olga").await;
    let text = "x".repeat(1_000_000);
    let emit = ["emit", "Order", "1", "order.placed", "-", "--json"];
    let emitted = scene.home.run_with_input(&emit, &format!("\"{text}\"")).succeeded().json();
    let id = emitted["id"].as_str().unwrap().to_owned();
    scene.until(&id, "delivered").await;
    let page = scene.page(&format!("/events/{id}")).await;
    assert!(page.len() < 100_000 && page.contains("Only the beginning is shown"), "{}", page.len());
    assert_eq!(scene.client.get(&format!("/events/{id}/payload")).await.json(), text.as_str());
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_filtered_searched_and_turned_page_by_page() {
    let mut scene = Scene::begin("olga").await;
    for number in 0..60 {
        scene.home.json(&["emit", "Order", &number.to_string(), "order.placed", "--key", &format!("key-{number}")]);
    }
    let bad = scene.home.emit("bad", &["\"bad\""]);
    scene.until(&bad, "failed").await;
    let rows = |page: &str| page.matches("<tr data-event=").count();
    let failed = scene.page("/events?state=failed&destination=runner").await;
    assert!(rows(&failed) == 1 && failed.contains(&bad), "{failed}");
    assert_eq!(rows(&scene.page("/events?state=failed&event_type=invoice.*").await), 0);
    assert_eq!(rows(&scene.page("/events?aggregate_type=Order&aggregate_id=7").await), 1);
    let year = chrono::Utc::now().format("%Y").to_string();
    assert_eq!(rows(&scene.page(&format!("/events?when={year}&state=failed")).await), 1);
    assert_eq!(rows(&scene.page("/events?when=2001&state=failed").await), 0);

    let first = scene.page("/events?event_type=order.*").await;
    assert_eq!(rows(&first), 50);
    let next = link(&first, "next");
    assert!(next.contains("event_type=order."), "the filter goes along: {next}");
    let second = scene.page(&next).await;
    assert_eq!(rows(&second), 11);
    assert!(second.contains("First page"));
    // Back is where it came from: the first page, which is up to date.
    let back = scene.client.get(&link(&second, "previous")).await;
    assert_eq!((back.status, back.header("location")), (303, "/events?event_type=order.*"));

    let found = scene.client.get(&format!("/search?q={bad}")).await;
    assert_eq!((found.status, found.header("location")), (303, format!("/events/{bad}").as_str()));
    assert!(scene.client.get("/search?q=key-17").await.header("location").starts_with("/events/0"));
    let parts = scene.client.get("/search?q=ey-17").await.header("location").to_owned();
    assert_eq!(parts, "/events?search=ey-17&did=parts");
    let parts = scene.page(&parts).await;
    assert!(rows(&parts) == 1 && parts.contains("No event has exactly this id, key or aggregate"), "{parts}");
    assert!(parts.contains("Delivered events are deleted 7 d after their delivery"), "{parts}");
    for wrong in ["state=odd", "when=2026-13", "cursor=zz", "since=now", "oldest_first=yes", "had_failures=0"] {
        let refused = scene.client.get(&format!("/events?{wrong}")).await;
        assert_eq!(refused.status, 400, "{wrong}: {refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_parameter_is_refused_on_every_page() {
    let mut scene = Scene::begin("olga").await;
    let id = scene.home.emit("1", &[]);
    scene.until(&id, "delivered").await;
    let event = format!("/events/{id}");
    for path in
        ["/", "/events", "/dead-letters", "/destinations", "/jobs", "/audit", "/search", "/bulk", "/chosen", &event]
    {
        let refused = scene.client.get(&format!("{path}?stat=failed")).await;
        assert_eq!(refused.status, 400, "{path}: {refused:?}");
        assert!(refused.body.contains("there is no parameter &#34;stat&#34; here; "), "{path}: {refused:?}");
    }
    let refused = scene.client.get("/events?state=failed&aggregate=Order").await;
    assert!(refused.body.contains("choose from: state, event_type, aggregate_type, aggregate_id, "), "{refused:?}");
    assert!(refused.body.contains("had_failures, cursor, before, oldest_first"), "{refused:?}");
    let refused = scene.act(&format!("{event}/replay?destination=runner"), &[]).await;
    assert!(refused.status == 400 && refused.body.contains("this address takes none"), "{refused:?}");
    assert_eq!(scene.receiver.count(), 1, "nothing was sent again");
    assert!(scene.page("/jobs?did=start").await.contains("The job has started."));
}

#[tokio::test(flavor = "multi_thread")]
async fn chosen_events_are_acted_on_after_a_question() {
    let mut scene = Scene::begin("olga").await;
    let dead: Vec<String> = (0..3).map(|number| scene.home.emit(&number.to_string(), &["\"bad\""])).collect();
    for id in &dead {
        scene.until(id, "failed").await;
    }
    let sent = scene.home.emit("9", &[]);
    scene.until(&sent, "delivered").await;
    let list = scene.page("/events").await;
    for part in
        ["id=\"chosen-retry\"", "id=\"chosen-replay\"", "id=\"chosen-fail\"", "name=\"id\"", "data-label=\"to\">runner"]
    {
        assert!(list.contains(part), "{part}: {list}");
    }
    assert!(list.contains("id=\"tab-failed\"") && list.contains("<span class=\"count\">3</span>"), "{list}");
    let delivered = scene.page("/events?state=delivered").await;
    assert!(delivered.contains("chosen-replay") && !delivered.contains("chosen-retry"), "{delivered}");

    let chosen =
        format!("/chosen?action=retry&id={}&id={}&id={sent}&back=%2Fevents%3Fstate%3Dfailed", dead[0], dead[1]);
    let question = scene.page(&chosen).await;
    assert!(question.contains("Retry 2 events?") && question.contains("skipped: it is delivered"), "{question}");
    scene.receiver.answer_with(|_| Answer::ok());
    let fields = confirmation(&question);
    let form: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let done = scene.client.post("/chosen", &form).await;
    assert_eq!((done.status, done.header("location")), (303, "/events?state=failed&did=retry.2.0"), "{done:?}");
    let list = scene.page("/events?state=failed&did=retry.2.0").await;
    assert!(list.contains("2 events are due now.") && list.contains(&dead[2]), "{list}");
    scene.until(&dead[0], "delivered").await;
    scene.until(&dead[1], "delivered").await;
    assert_eq!(scene.home.state(&dead[2]), "failed");

    // What changed in the meantime is left alone, and the notice says so.
    let done =
        scene.act("/chosen", &[("action", "retry"), ("id", &dead[0]), ("id", &dead[2]), ("back", "/events")]).await;
    assert_eq!(done.header("location"), "/events?did=retry.1.1");
    let notice = scene.page("/events?did=retry.1.1").await;
    assert!(notice.contains("1 event is due now. 1 event was not changed"), "{notice}");
    for wrong in ["action=retry", "action=drop&id=1", "action=retry&id=1"] {
        assert_eq!(scene.client.get(&format!("/chosen?{wrong}")).await.status, 400, "{wrong}");
    }
    let gone = format!("/chosen?action=retry&id={}", "01890000-0000-7000-8000-000000000000");
    assert_eq!(scene.client.get(&gone).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_retries_marks_failed_and_replays() {
    let mut scene = Scene::begin("olga").await;
    let id = scene.home.emit("1", &["\"bad\""]);
    scene.until(&id, "failed").await;
    scene.receiver.answer_with(|_| Answer::ok());
    for forged in [&[][..], &[("csrf", "")], &[("csrf", "guessed")]] {
        for path in ["retry", "fail", "replay"] {
            let refused = scene.client.post(&format!("/events/{id}/{path}"), forged).await;
            assert!(refused.status == 403 && refused.body.contains("nothing was changed"), "{refused:?}");
        }
    }
    assert_eq!((scene.home.state(&id), scene.receiver.count()), ("failed".to_owned(), 2));
    let done = scene.act(&format!("/events/{id}/retry"), &[]).await;
    assert_eq!((done.status, done.header("location")), (303, format!("/events/{id}?did=retry").as_str()));
    assert!(scene.page(done.header("location")).await.contains("The event is due now"));
    scene.until(&id, "delivered").await;
    let again = scene.act(&format!("/events/{id}/retry"), &[]).await;
    assert!(again.status == 409 && again.body.contains("it is already delivered"), "{again:?}");
    assert!(again.body.contains(&format!("href=\"/events/{id}\" id=\"back\"")), "{again:?}");

    let page = scene.page(&format!("/events/{id}")).await;
    let question = scene.page(&link(&page, "do-replay")).await;
    assert!(question.contains("Replay 1 event?") && question.contains("Sent to <strong>runner</strong>"), "{question}");
    assert!(question.contains(&format!("action=\"/events/{id}/replay\"")), "{question}");
    let done = scene.act(&format!("/events/{id}/replay"), &[]).await;
    let place = done.header("location").to_owned();
    let new = place.split(['/', '?']).nth(2).unwrap().to_owned();
    assert!(new != id && place.ends_with("?did=replay"), "{place}");
    scene.until(&new, "delivered").await;
    assert!(scene.page(&format!("/events/{new}")).await.contains(&format!("href=\"/events/{id}\" id=\"replay-of\"")));
    assert_eq!(scene.receiver.count(), 4, "two that failed, the retry and the replay");

    let later = (chrono::Utc::now() + chrono::TimeDelta::hours(1)).to_rfc3339();
    let id = scene.home.emit("2", &["--deliver-at", &later]);
    let done = scene.act(&format!("/events/{id}/fail"), &[("reason", SCRIPT), ("back", "//evil.example")]).await;
    assert_eq!(done.header("location"), "/", "nobody is led away");
    assert_eq!(scene.home.state(&id), "failed");
    let page = scene.page(&format!("/events/{id}")).await;
    assert!(page.contains("marked failed by olga") && !page.contains("<script>alert"), "{page}");

    let audit = scene.page("/audit").await;
    for what in ["retry", "replay", "fail"] {
        assert!(audit.contains(&format!("data-what=\"{what}\"")), "{what}: {audit}");
    }
    assert!(scene.relay.terminate(PATIENCE).await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_of_dead_letters_is_retried_after_a_preview_as_a_job() {
    let mut scene = Scene::begin("olga").await;
    let ids: Vec<String> = (0..3).map(|number| scene.home.emit(&number.to_string(), &["\"bad\""])).collect();
    for id in &ids {
        scene.until(id, "failed").await;
    }
    let page = scene.page("/dead-letters").await;
    assert!(page.contains("<strong>3</strong>") && page.contains("data-destination=\"runner\""), "{page}");
    let preview = scene.page(&link(&page, "retry-group-1")).await;
    assert!(preview.contains("Retry 3 events?"), "{preview}");

    scene.receiver.answer_with(|_| Answer::ok());
    let fields = confirmation(&preview);
    let mut form: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    form.push(("rate", "1000"));
    let started = scene.client.post("/bulk", &form).await;
    assert_eq!(started.status, 303, "{started:?}");
    let job = started.header("location").to_owned();
    assert!(job.starts_with("/jobs/") && job.ends_with("?did=start"), "{job}");
    for id in &ids {
        scene.until(id, "delivered").await;
    }
    let client = tokio::sync::Mutex::new(&mut scene.client);
    wait_until("the job is done", PATIENCE, async || {
        client.lock().await.get(&job).await.body.contains("data-state=\"done\"")
    })
    .await;
    assert!(scene.page("/jobs").await.contains("3 of 3"));
    assert!(scene.page("/dead-letters").await.contains("No dead letters in this time"));
}

/// Where the link with this id leads.
fn link(page: &str, id: &str) -> String {
    let (before, behind) = page.split_once(&format!("id=\"{id}\"")).unwrap_or_else(|| panic!("no {id} in {page}"));
    let tag = [before.rsplit("<a ").next().unwrap(), behind.split('>').next().unwrap()].concat();
    let place = tag.split("href=\"").nth(1).unwrap().split('"').next().unwrap();
    place.replace("&#38;", "&")
}

/// The form of a preview, as a browser would send it.
fn confirmation(preview: &str) -> Vec<(String, String)> {
    let hidden = preview.split("id=\"confirm\"").nth(1).unwrap().split("type=\"hidden\" name=\"").skip(1);
    let field = |rest: &str| {
        let (name, rest) = rest.split_once("\" value=\"").unwrap();
        (name.to_owned(), rest.split('"').next().unwrap().replace("&#38;", "&").replace("&#34;", "\""))
    };
    hidden.map(field).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_retried_from_a_list_of_dead_letters_is_what_it_shows() {
    let mut scene = Scene::begin("olga").await;
    let ids: Vec<String> = (0..3).map(|number| scene.home.emit(&number.to_string(), &["\"bad\""])).collect();
    for id in &ids {
        scene.until(id, "failed").await;
    }
    scene.home.age(&ids[0], 24 * 20).await;
    scene.home.age(&ids[1], 2).await;
    for (path, shown) in [("/dead-letters?hours=1", 1), ("/dead-letters", 2), ("/dead-letters?hours=720", 3)] {
        let page = scene.page(path).await;
        assert!(page.contains(&format!("<strong>{shown}</strong>")), "{path}: {page}");
        let things = if shown == 1 { "event" } else { "events" };
        for id in ["retry-group-1", "retry-all"] {
            let preview = scene.page(&link(&page, id)).await;
            assert!(preview.contains(&format!("Retry {shown} {things}?")), "{path} {id}: {preview}");
        }
        // As a list it is the same, and so is all that is retried from there.
        let list = scene.page(&link(&page, "as-events")).await;
        let listed = ids.iter().filter(|id| list.contains(id.as_str())).count();
        assert_eq!(listed, shown, "{path}: {list}");
        assert!(list.contains("Only events that failed in the last"), "{path}: {list}");
        let preview = scene.page(&link(&list, "bulk")).await;
        assert!(preview.contains(&format!("Retry {shown} {things}?")), "{path}: {preview}");
        let all = scene.page(&link(&list, "unbound")).await;
        assert!(ids.iter().all(|id| all.contains(id.as_str())), "{path}: {all}");
    }
    scene.receiver.answer_with(|_| Answer::ok());
    let page = scene.page("/dead-letters?hours=1").await;
    let preview = scene.page(&link(&page, "retry-all")).await;
    let fields = confirmation(&preview);
    let form: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(scene.client.post("/bulk", &form).await.status, 303);
    scene.until(&ids[2], "delivered").await;
    assert_eq!((scene.home.state(&ids[0]).as_str(), scene.home.state(&ids[1]).as_str()), ("failed", "failed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_destination_is_paused_and_resumed() {
    let mut scene = Scene::begin("olga").await;
    assert!(scene.page("/destinations").await.contains("id=\"pause-runner\""));
    assert_eq!(scene.act("/destinations/runner/pause", &[]).await.header("location"), "/destinations?did=pause");
    let page = scene.page("/destinations").await;
    assert!(page.contains("data-health=\"paused\"") && page.contains("Paused by olga"), "{page}");
    assert!(page.contains("id=\"resume-runner\"") && !page.contains("topsecret"), "{page}");
    scene.act("/destinations/runner/resume", &[]).await;
    let id = scene.home.emit("1", &["{}"]);
    scene.until(&id, "delivered").await;
    assert_eq!(scene.act("/destinations/nowhere/pause", &[]).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_event_is_sent_by_a_form_and_its_result_is_shown() {
    let mut scene = Scene::begin("olga").await;
    assert!(scene.page("/destinations").await.contains("id=\"test-runner\""));
    let sent = scene.act("/destinations/runner/test", &[]).await;
    let place = sent.header("location").to_owned();
    assert!(place.starts_with("/destinations?did=tested.ok.200.") && place.ends_with("#runner"), "{sent:?}");
    let page = scene.page(place.split('#').next().unwrap()).await;
    assert!(page.contains("The test event was delivered in") && page.contains("sent by olga"), "{page}");
    assert_eq!(scene.receiver.received()[0].headers["pillarbox-test"], "true");

    scene.receiver.answer_with(|_| Answer::status(422).body(SCRIPT));
    let sent = scene.act("/destinations/runner/test", &[]).await;
    assert!(sent.header("location").starts_with("/destinations?did=tested.reject.422."), "{sent:?}");
    let page = scene.page("/destinations").await;
    assert!(page.contains("not delivered") && page.contains("would become a dead letter"), "{page}");
    assert!(page.contains("alert(") && !page.contains(SCRIPT) && !page.contains("topsecret"), "{page}");
    assert_eq!(scene.act("/destinations/nowhere/test", &[]).await.status, 404);
    assert!(scene.page("/events").await.contains("No matching events."));
}
