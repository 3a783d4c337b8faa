"""The list of events, and one event: looking, filtering, searching, and everything that can be done to it."""

from __future__ import annotations

import json

from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select

from . import furniture
from .browser import Browser
from .furniture import TRACE, new_case
from .program import Admin

ROWS = "#events tr[data-event]"


def rows(browser: Browser) -> set[str]:
    return set(browser.attributes(ROWS, "data-event"))


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
    Select(operator.find("#f-state")).select_by_visible_text("scheduled")
    operator.click("#filter button[type=submit]")
    operator.wait("one of them is listed", lambda: rows(operator) == {later})
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
    # An address may hold a token behind its host.
    assert admin.receiver.url("***") in (operator.text("#request-1 pre") or "")
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
    operator.wait_for_text("#notice", "This is the replay")
    first, second = admin.receiver.wait_for(case, 2)
    assert (first.event_id, first.payload) == (event, second.payload)
    assert operator.path == f"/events/{second.event_id}?did=replay"
    assert operator.text("#replay-of") == event
    operator.wait_for_text("#state", "delivered")
