//! The overview: what flows, and the problems before it.

use pillarbox_testkit::receiver::Answer;
use pillarbox_testkit::wait_until;

use super::{Scene, refuse_bad};
use crate::delivering::PATIENCE;

#[tokio::test(flavor = "multi_thread")]
async fn the_overview_tells_what_flows() {
    let mut scene = Scene::begin("olga").await;
    for number in 0..5 {
        scene.home.emit(&number.to_string(), &["{}"]);
    }
    scene.home.json(&["emit", "Other", "1", "invoice.sent"]);
    let client = tokio::sync::Mutex::new(&mut scene.client);
    wait_until("it is told", PATIENCE, async || {
        let page = client.lock().await.get("/").await.body;
        page.contains("delivered <strong>5</strong>") && page.contains("id=\"tile-parked\" data-value=\"1\"")
    })
    .await;
    let page = scene.page("/").await;
    assert!(page.contains("data-destination=\"runner\" data-health=\"healthy\""), "{page}");
    assert!(page.contains("data-problem=\"unrouted\"") && page.contains("No route matches invoice.sent"), "{page}");
    assert!(page.contains("/events?state=parked&#38;parked_on=unrouted") && !page.contains("no-problems"), "{page}");
    assert!(page.contains("<link rel=\"icon\" href=\"/assets/icon.svg\" type=\"image/svg+xml\">"), "{page}");
    assert_eq!(scene.client.get("/assets/icon.svg").await.header("content-type"), "image/svg+xml");
    // The columns of each range, and their exact values.
    for (range, columns) in [("15m", 15), ("1h", 60), ("6h", 72), ("24h", 96)] {
        let page = scene.page(&format!("/?range={range}")).await;
        assert_eq!(page.matches("class=\"column\"").count(), 2 * columns, "{range}");
        assert!(page.contains(&format!("id=\"range-{range}\" aria-current")), "{range}");
        assert!(page.contains("5 delivered\n0 failed attempts"), "{range}");
    }
    for wrong in ["/?range=2h", "/?ranges=1h", "/destinations?range=year"] {
        assert_eq!(scene.client.get(wrong).await.status, 400, "{wrong}");
    }
    assert!(page.contains("data-relay=") && page.contains("<svg") && page.contains("data-refresh=\"3\""), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn problems_come_first_with_their_reason_and_a_way_to_their_solution() {
    let mut scene = Scene::begin("olga").await;
    assert!(scene.page("/").await.contains("id=\"no-problems\""));
    scene.receiver.answer_with(|_| Answer::status(503));
    for number in 0..4 {
        scene.home.emit(&number.to_string(), &["{}"]);
    }
    let client = tokio::sync::Mutex::new(&mut scene.client);
    wait_until("it is told", PATIENCE, async || {
        let page = client.lock().await.get("/").await.body;
        page.contains("data-problem=\"down\"") && page.contains("events wait, the oldest for")
    })
    .await;
    let page = scene.page("/").await;
    assert!(page.contains("href=\"/destinations#runner\">runner is down</a>"), "{page}");
    assert!(page.contains("503") && page.find("data-problem").unwrap() < page.find("id=\"tiles\"").unwrap(), "{page}");
    let page = scene.page("/destinations").await;
    assert!(page.contains("data-health=\"down\"") && page.contains("until a probe succeeds"), "{page}");
    refuse_bad(&scene.receiver);
    let client = tokio::sync::Mutex::new(&mut scene.client);
    wait_until("it is over", PATIENCE, async || client.lock().await.get("/").await.body.contains("id=\"no-problems\""))
        .await;
    let bad: Vec<String> = (10..14).map(|number| scene.home.emit(&number.to_string(), &["\"bad\""])).collect();
    scene.until(&bad[3], "failed").await;
    let client = tokio::sync::Mutex::new(&mut scene.client);
    wait_until("it fails", PATIENCE, async || client.lock().await.get("/").await.body.contains("runner is failing"))
        .await;
    scene.until(&bad[2], "failed").await;
    let page = scene.page("/").await;
    let dead = page.split("data-problem=\"dead-letters\"").nth(1).unwrap().split("</li>").next().unwrap();
    assert!(dead.contains("the first <time") && dead.contains("the last <time"), "{dead}");
    assert!(dead.contains("<span class=\"error\">") && dead.contains("500 Internal Server Error"), "{dead}");
    assert!(scene.page("/destinations").await.contains("of the attempts of the last 5 minutes succeeded"));
}
