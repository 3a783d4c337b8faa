"""The list of events, and one event: looking, filtering, searching, and everything that can be done to it."""

from __future__ import annotations

import json

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select

from . import furniture
from .browser import Browser
from .furniture import TRACE, new_case
from .program import Admin

ROWS = "#events tr[data-event]"


def rows(browser: Browser) -> set[str]:
    return set(browser.attributes(ROWS, "data-event"))


def in_order(browser: Browser) -> list[str]:
    return browser.attributes(ROWS, "data-event")


def press(browser: Browser, *keys: str) -> None:
    ActionChains(browser.driver).send_keys(*keys).perform()


def test_the_list_is_filtered_by_state_and_type_and_the_link_carries_the_filter(
    operator: Browser, admin: Admin
) -> None:
    case = new_case("filter")
    sent = furniture.delivered(admin, f"orders.{case}.sent", case)
    later = furniture.scheduled(admin, f"orders.{case}.later", case)
    operator.open("/events")
    operator.fill("#f-type", f"orders.{case}.*").send_keys(Keys.ENTER)
    operator.wait("the link carries the type", lambda: operator.path == f"/events?event_type=orders.{case}.*")
    operator.wait("both are listed", lambda: rows(operator) == {sent, later})
    # Counts of all events would mislead beside a filter. A list of one page has its own count.
    assert (operator.texts("#states .count"), operator.text("#tab-all .count")) == (["2"], "2")
    operator.click("#tab-scheduled")
    operator.wait("one of them is listed", lambda: rows(operator) == {later})
    assert (operator.texts("#states .count"), operator.text("#tab-scheduled .count")) == (["1"], "1")
    link = operator.path
    # What was not filled in is no part of the link.
    assert link == f"/events?state=scheduled&event_type=orders.{case}.*"
    operator.open("/").open(link)
    assert rows(operator) == {later}
    assert operator.find("#f-type").get_property("value") == f"orders.{case}.*"
    assert operator.attributes(ROWS, "data-state") == ["scheduled"]
    operator.click("#unfilter")
    operator.wait("nothing is filtered", lambda: operator.path == "/events")


def test_the_list_is_filtered_by_destination_aggregate_and_date(operator: Browser, admin: Admin) -> None:
    case = new_case("narrow")
    mine = furniture.delivered(admin, f"mail.{case}", case, aggregate=("Basket", case))
    furniture.delivered(admin, f"mail.{case}", new_case("other"), aggregate=("Basket", "another"))
    operator.open(f"/events?event_type=mail.{case}")
    operator.wait("both are listed", lambda: len(rows(operator)) == 2)
    Select(operator.find("#f-destination")).select_by_visible_text("mail")
    operator.fill("#f-aggregate-type", "Basket")
    operator.fill("#f-aggregate-id", case).send_keys(Keys.ENTER)
    operator.wait("one of them is listed", lambda: rows(operator) == {mine})
    # The year, the month, the day, and the hour.
    for length in (4, 7, 10, 13):
        when = admin.show(mine)["created_at"][:length]
        place = operator.script(
            "return [...document.querySelectorAll('#dates a[data-when]')].map(a => a.dataset.when)"
            ".find(when => arguments[0].startsWith(when))",
            when,
        )
        if place:
            operator.click(f'#dates a[data-when="{place}"]')
            operator.wait("the link carries the time", lambda place=place: f"when={place}" in operator.path)
            operator.wait("it is of that time", lambda: rows(operator) == {mine})
    assert "when=" in operator.path


def test_a_long_list_has_pages(operator: Browser, admin: Admin) -> None:
    case = new_case("pages")
    later = ("--repeatable", "--deliver-at", furniture.LATER)
    events = admin.emit_all(f"orders.{case}", [{}] * 53, options=later)
    operator.open(f"/events?event_type=orders.{case}")
    first = rows(operator)
    assert len(first) == 50
    operator.click("#next")
    operator.wait("the rest is listed", lambda: len(rows(operator)) == 3)
    assert first | rows(operator) == set(events)
    # Back, and the other way round.
    operator.click("#previous")
    operator.wait("the beginning is listed", lambda: rows(operator) == first)
    assert operator.path == f"/events?event_type=orders.{case}"
    operator.click("#next")
    operator.wait("the rest is listed", lambda: len(rows(operator)) == 3)
    operator.click("#first")
    operator.wait("the beginning is listed", lambda: rows(operator) == first)
    operator.click("#turn")
    operator.wait("the oldest come first", lambda: rows(operator) != first)
    assert len(rows(operator)) == 50


def test_an_event_tells_its_story(operator: Browser, admin: Admin) -> None:
    case = new_case("story")
    aggregate = ("Order", case)
    neighbour = furniture.scheduled(admin, "orders.neighbour", case, aggregate=aggregate)
    event = furniture.tried(admin, "orders.story", case, "Out of <paper>.")
    operator.open("/events?event_type=orders.story&search=" + event)
    operator.click(f'tr[data-event="{event}"] a')
    operator.wait_for_text("h1", "orders.story")
    assert operator.text("#state") == "scheduled"
    committed, attempt, following = operator.texts("#timeline li")
    assert committed.startswith("Committed")
    assert attempt.startswith("Attempt 1 to orders failed after ")
    assert "status 500" in attempt
    assert "the receiver answered 500 Internal Server Error" in attempt
    assert following.startswith("Next attempt")
    operator.click("#timeline details summary")
    operator.wait_for_text("#timeline details pre", "Out of <paper>.")
    shown = json.loads(operator.text("#payload") or "")
    assert shown["lines"] == [1, 2.5, True, None]
    assert "4111111111111111" not in operator.driver.page_source
    assert operator.text("#trace") == TRACE
    assert "tenant" in (operator.text("#headers") or "")
    operator.click("#request-1 summary")
    operator.wait_for_text("#request-1 pre", "curl")
    assert admin.receiver.url("orders") in (operator.text("#request-1 pre") or "")
    assert operator.has('a[href="/destinations#orders"]')

    operator.open(f"/events/{neighbour}")
    assert operator.attributes("#neighbours li", "data-event") == [neighbour]
    other = furniture.scheduled(admin, "orders.neighbour", case, aggregate=aggregate)
    operator.wait("its new neighbour appears", lambda: operator.has(f'#neighbours li[data-event="{other}"]'))


def test_one_event_is_retried(operator: Browser, admin: Admin) -> None:
    case = new_case("retry")
    (event,) = furniture.failed(admin, "orders.retried", case)
    operator.open(f"/events/{event}")
    assert operator.text("#state") == "failed"
    admin.receiver.accept(case)
    operator.click("#do-retry")
    operator.wait_for_text("#notice", "The event is due now")
    # The page finds out by itself.
    operator.wait_for_text("#state", "delivered")
    assert [one.event_id for one in admin.receiver.of(case)] == [event]
    assert not operator.has("#do-retry")


def test_one_event_is_retried_from_the_list(operator: Browser, admin: Admin) -> None:
    case = new_case("row")
    first, second = furniture.failed(admin, f"orders.{case}", case, 2)
    admin.receiver.accept(case)
    operator.open(f"/events?state=failed&event_type=orders.{case}")
    operator.click(f"#retry-{first}")
    operator.wait("the other one is left", lambda: rows(operator) == {second})
    assert operator.path == f"/events?state=failed&event_type=orders.{case}"
    assert [one.event_id for one in admin.receiver.wait_for(case, 1)] == [first]


def test_an_event_is_marked_failed_with_a_reason(operator: Browser, admin: Admin) -> None:
    event = furniture.scheduled(admin, "orders.unwanted", new_case("fail"))
    operator.open(f"/events/{event}")
    operator.fill("#reason", "nobody wants it")
    operator.click("#do-fail")
    operator.wait_for_text("#notice", "The event is marked failed.")
    assert operator.text("#state") == "failed"
    assert "nobody wants it" in (operator.text("#error") or "")
    assert admin.show(event)["state"] == "failed"
    assert not operator.has("#do-fail")


def test_a_delivered_event_is_replayed_as_a_new_one(operator: Browser, admin: Admin) -> None:
    case = new_case("replay")
    event = furniture.delivered(admin, "orders.replayed", case)
    operator.open(f"/events/{event}")
    assert not operator.has("#do-retry")
    operator.click("#do-replay")
    operator.wait_for_text("h1", "Replay 1 event?")
    assert operator.text("#to") == "Sent to orders."
    operator.click("#back")
    operator.wait("nothing was done", lambda: operator.path == f"/events/{event}")
    operator.click("#do-replay")
    operator.click("#start")
    operator.wait_for_text("#notice", "This is the replay")
    first, second = admin.receiver.wait_for(case, 2)
    assert (first.event_id, first.payload) == (event, second.payload)
    assert operator.path == f"/events/{second.event_id}?did=replay"
    assert operator.text("#replay-of") == event
    operator.wait_for_text("#state", "delivered")


def test_a_replay_goes_to_one_destination_if_that_is_chosen(operator: Browser, admin: Admin) -> None:
    case = new_case("only")
    event = furniture.delivered(admin, "both.replayed", case)
    first, second = admin.destinations[:2]
    assert len(admin.receiver.wait_for(case, 2)) == 2
    operator.open(f"/events/{event}/replay")
    assert operator.texts("#to label") == [f"all destinations: {first}, {second}", f"only {first}", f"only {second}"]
    operator.click(f'#to input[value="{second}"]')
    operator.click("#start")
    operator.wait_for_text("#notice", "This is the replay")
    operator.wait_for_text("#state", "delivered")
    assert operator.text("#replay-to") == second
    assert dict(
        zip(
            operator.attributes("#deliveries tr[data-destination]", "data-destination"),
            operator.texts("#deliveries tr[data-destination] .state"),
            strict=True,
        )
    ) == {first: "skipped", second: "delivered"}
    assert f"Delivered to {second}" in (operator.text("#timeline") or "")
    assert f"Delivered to {first}" not in (operator.text("#timeline") or "")
    assert [one.destination for one in admin.receiver.of(case)[2:]] == [second]


def test_states_are_tabs_with_counts(operator: Browser, admin: Admin) -> None:
    def counted(state: str) -> int:
        return int((operator.text(f"#tab-{state} .count") or "-1").replace(",", ""))

    case = new_case("tabs")
    operator.open("/events")
    before = counted("scheduled")
    assert (operator.text("#states [aria-current]") or "").startswith("All")
    furniture.scheduled(admin, f"orders.{case}", case)
    operator.wait("the count goes up by itself", lambda: counted("scheduled") == before + 1)
    assert counted("pending") >= counted("scheduled")
    assert not operator.has("#tab-delivered .count"), "there may be millions"
    operator.click("#tab-scheduled")
    operator.wait("it is the list of one state", lambda: operator.path == "/events?state=scheduled")
    assert (operator.text("#states [aria-current]") or "").startswith("Scheduled")
    assert set(operator.attributes(ROWS, "data-state")) == {"scheduled"}


def test_chosen_events_are_retried_after_a_question(operator: Browser, admin: Admin) -> None:
    case = new_case("chosen")
    first, second, third = furniture.failed(admin, f"orders.{case}", case, 3)
    admin.receiver.accept(case)
    operator.open(f"/events?state=failed&event_type=orders.{case}")
    assert not operator.find("#chosen-retry").is_enabled()
    operator.click(f"#pick-{first}")
    operator.click(f"#pick-{second}")
    operator.wait_for_text("#chosen-count", "2 chosen")
    operator.click("#chosen-retry")
    operator.wait_for_text("h1", "Retry 2 events?")
    assert rows(operator) == {first, second}
    operator.click("#start")
    operator.wait_for_text("#notice", "2 events are due now.")
    operator.wait("the other one is left", lambda: rows(operator) == {third})
    assert {one.event_id for one in admin.receiver.wait_for(case, 2)} == {first, second}
    # All of a page at once.
    operator.click("#choose-all")
    operator.wait_for_text("#chosen-count", "1 chosen")
    operator.click("#choose-all")
    operator.wait("none is chosen", lambda: not operator.find("#chosen-retry").is_enabled())


def test_events_are_chosen_and_acted_on_without_javascript(operator: Browser, admin: Admin) -> None:
    case = new_case("noscript")
    event = furniture.scheduled(admin, f"orders.{case}", case)
    sent = furniture.delivered(admin, f"orders.{case}", new_case("sent"))
    operator.scripts(False)
    operator.open(f"/events?event_type=orders.{case}")
    operator.click(f"#pick-{event}")
    operator.click(f"#pick-{sent}")
    operator.click("#chosen-fail")
    operator.wait_for_text("h1", "Mark failed 1 event?")
    assert "skipped: it is delivered" in (operator.text(f'tr[data-event="{sent}"]') or "")
    operator.fill("#reason", "it is too late")
    operator.click("#start")
    operator.wait_for_text("#notice", "1 event is marked failed.")
    assert admin.show(event)["error_message"].endswith("it is too late")


def test_rows_are_walked_with_keys(operator: Browser, admin: Admin) -> None:
    case = new_case("walk")
    for _ in range(3):
        furniture.scheduled(admin, f"orders.{case}", case)

    def here() -> str | None:
        return operator.script("return document.activeElement.closest('tr')?.dataset.event")

    operator.open(f"/events?event_type=orders.{case}")
    listed = in_order(operator)
    press(operator, "j")
    assert here() == listed[0]
    press(operator, "jjj")
    assert here() == listed[2], "it stops at the last one"
    press(operator, "k")
    assert here() == listed[1]
    press(operator, "x")
    operator.wait_for_text("#chosen-count", "1 chosen")
    assert operator.find(f"#pick-{listed[1]}").is_selected()
    press(operator, "?")
    operator.wait_for_text("#keys", "next and previous row")
    assert operator.script("return document.getElementById('keys').open")
    press(operator, Keys.ESCAPE)
    operator.wait("the help is closed", lambda: not operator.script("return document.getElementById('keys').open"))
    # In a field they are letters.
    operator.find("#f-search").click()
    press(operator, "jk?x")
    assert operator.find("#f-search").get_property("value") == "jk?x"
    operator.script(f"document.querySelector('tr[data-event=\"{listed[1]}\"] a').focus()")
    press(operator, Keys.ENTER)
    operator.wait("it is opened", lambda: operator.path == f"/events/{listed[1]}")


def test_a_payload_is_copied(operator: Browser, admin: Admin) -> None:
    event = furniture.scheduled(admin, "orders.copied", new_case("copy"))
    operator.cdp("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    operator.open(f"/events/{event}")
    operator.click("#copy-payload")
    operator.wait_for_text("#copy-payload", "Copied")
    copied = operator.promise("navigator.clipboard.readText()")
    assert json.loads(copied) == admin.show(event)["payload"]


def test_only_a_payload_is_copied_and_no_log_in_page(operator: Browser, admin: Admin) -> None:
    payload = {"case": new_case("large"), "text": "x" * 300_000}
    event = admin.emit("orders.large", payload, options=("--repeatable", "--deliver-at", furniture.LATER))
    operator.cdp("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    operator.open(f"/events/{event}")
    operator.click("#copy-payload")
    operator.wait_for_text("#copy-payload", "Copied")
    assert json.loads(operator.promise("navigator.clipboard.readText()")) == payload
    operator.wait_for_text("#copy-payload", "Copy payload")
    # An answer that is an error is no payload.
    operator.promise("navigator.clipboard.writeText('before')")
    operator.expect("status of 404")
    operator.script("document.getElementById('copy-payload').dataset.copyFrom = '/nowhere'")
    operator.click("#copy-payload")
    operator.wait_for_text("#copy-payload", "Not copied")
    assert operator.promise("navigator.clipboard.readText()") == "before"
    # Without a session the answer is the log-in page, which is shown.
    operator.script("document.getElementById('live').click()")
    operator.script(f"document.getElementById('copy-payload').dataset.copyFrom = '/events/{event}/payload'")
    operator.cdp("Network.clearBrowserCookies")
    operator.click("#copy-payload")
    operator.wait("one is asked who one is", lambda: operator.path.startswith("/login?next="))
    assert operator.promise("navigator.clipboard.readText()") == "before"


def test_an_event_that_was_delivered_after_failures_shows_them(operator: Browser, admin: Admin) -> None:
    case = new_case("flaky")
    smooth = furniture.delivered(admin, f"orders.{case}", new_case("smooth"))
    event = furniture.tried(admin, f"orders.{case}", case)
    admin.receiver.accept(case)
    operator.open(f"/events?event_type=orders.{case}&had_failures=1")
    assert rows(operator) == {event}
    assert smooth not in rows(operator)
    assert operator.text(f'tr[data-event="{event}"] td[data-label=failures]') == "1"
    assert operator.find("#f-failures").is_selected()


def test_an_unknown_parameter_is_an_error_and_not_everything(operator: Browser) -> None:
    operator.expect("status of 400")
    operator.open("/events?stat=failed")
    operator.wait_for_text("#detail", 'there is no parameter "stat" here; choose from: state, event_type')
