"""Destinations: pausing and resuming one, and seeing that one is down and why."""

from __future__ import annotations

from .browser import Browser
from .furniture import new_case
from .program import OPERATOR, Admin
from .test_axe import RULES, findings, look


def health(browser: Browser, name: str) -> str | None:
    return browser.text(f'section[data-destination="{name}"] .state')


def test_a_destination_is_paused_and_resumed(operator: Browser, admin: Admin) -> None:
    case = new_case("pause")
    operator.open("/destinations")
    operator.wait("it is healthy", lambda: health(operator, "letters") == "healthy")
    operator.click("#pause-letters")
    operator.wait_for_text("#notice", "The destination is paused.")
    assert health(operator, "letters") == "paused"
    assert f"Paused by {OPERATOR}" in (operator.text("#letters .notice") or "")
    admin.wait_for_pause("letters")
    event = admin.emit("letters.written", {"case": case})
    admin.wait_for_state(event, "parked")
    operator.open(f"/events/{event}")
    operator.wait_for_text("#timeline", "Parked on letters")
    assert admin.receiver.of(case) == []

    operator.open("/destinations")
    operator.click("#resume-letters")
    operator.wait_for_text("#notice", "The destination is resumed.")
    admin.receiver.wait_for(case, 1)
    operator.wait("it is healthy", lambda: health(operator, "letters") == "healthy")
    operator.open("/audit")
    did = operator.attributes("#audit tr[data-audit]", "data-what")[:2]
    assert did == ["resume", "pause"]
    assert all("letters" in line for line in operator.texts("#audit tr[data-audit]")[:2])


def test_a_destination_that_is_down_says_so_and_why(operator: Browser, admin: Admin) -> None:
    case = new_case("down")
    admin.receiver.answer("/crm", 503)
    events = admin.emit_all("crm.called", [{"case": case}] * 4)
    operator.open("/destinations")
    operator.wait("it is down", lambda: health(operator, "crm") == "down")
    section = operator.text("#crm") or ""
    assert "the receiver answered 503 Service Unavailable" in section
    assert "open" in section
    assert "until a probe succeeds" in (operator.text("#crm [data-reason]") or "")
    operator.wait("what waits for it is counted", lambda: int(operator.text("#crm [data-waiting]") or "0") >= 3)
    (found,) = [one for one in admin.read("/destinations")["destinations"] if one["name"] == "crm"]
    assert found["health"] == "down"
    assert found["waiting"] >= 3
    assert found["down_since"]
    assert found["oldest_waiting_seconds"] >= 0
    operator.open("/")
    problem = "#problem-down-crm"
    operator.wait_for_text(f"{problem} a", "crm is down")
    said = operator.text(problem) or ""
    assert "for" in said
    assert "events wait" in said
    assert "503 Service Unavailable" in said
    assert operator.find(f"{problem} time").get_attribute("title"), "the exact time on hover"
    assert operator.attributes(f"{problem} a", "href") == ["/destinations#crm"]
    operator.wait(
        "the overview says so, too", lambda: operator.text("#destinations tr[data-destination=crm] .state") == "down"
    )
    admin.receiver.accept("/crm")
    assert {one.event_id for one in admin.receiver.wait_for(case, 4)} == set(events)
    operator.wait("it is healthy", lambda: operator.text("#destinations tr[data-destination=crm] .state") == "healthy")
    assert not operator.has("#problem-down-crm")


def test_a_paused_destination_is_a_problem_until_it_is_resumed(operator: Browser, admin: Admin) -> None:
    operator.open("/destinations")
    operator.click("#pause-letters")
    operator.wait_for_text("#notice", "The destination is paused.")
    operator.open("/")
    operator.wait_for_text("#problem-paused-letters", f"letters is paused by {OPERATOR}")
    operator.click("#problem-paused-letters a")
    operator.wait("the page that helps", lambda: operator.path == "/destinations")
    operator.click("#resume-letters")
    operator.wait_for_text("#notice", "The destination is resumed.")
    operator.open("/")
    operator.wait("it is gone", lambda: not operator.has("#problem-paused-letters"))
    admin.wait_for_pause("letters", False)


def test_the_response_time_is_told_apart_from_the_time_since_commit(operator: Browser, admin: Admin) -> None:
    case = new_case("response")
    admin.emit("letters.written", {"case": case})
    admin.receiver.wait_for(case, 1)
    operator.open("/destinations?range=15m")
    operator.wait("it is told", lambda: (operator.text("#letters [data-response]") or "").endswith("s"))
    (found,) = [one for one in admin.read("/destinations")["destinations"] if one["name"] == "letters"]
    assert 0 < found["flow"]["response_p50_seconds"] <= found["flow"]["latency_p95_seconds"]


def test_a_test_event_is_sent_and_its_result_is_shown(operator: Browser, admin: Admin) -> None:
    admin.receiver.answer("/mail", 204)
    operator.open("/destinations")
    operator.click("#test-mail")
    operator.wait_for_text("#notice", "The test event was delivered in")
    assert "status 204" in (operator.text("#notice") or "")
    result = operator.text("#mail [data-tested]") or ""
    assert f"sent by {OPERATOR}" in result
    sent = [one for one in admin.receiver.tests if one.destination == "mail"]
    assert [one.event_type for one in sent] == ["pillarbox.test"]
    assert operator.attributes("#mail [data-tested]", "data-tested") == [sent[0].event_id]
    assert findings(operator, tag=RULES) == []

    admin.receiver.answer("/mail", 401, "webhook-signature is not valid <script>")
    operator.click("#test-mail")
    operator.wait_for_text("#notice", "The test event was not delivered")
    assert operator.has("#notice.bad")
    operator.click("#test-answer-mail summary")
    operator.wait_for_text("#test-answer-mail pre", "webhook-signature is not valid <script>")
    assert look(operator, "destinations after a test") == []
    admin.receiver.accept("/mail")
    operator.open("/audit")
    lines = operator.texts("#audit tr[data-audit]")[:2]
    assert all(word in line for line in lines for word in ("test", "mail", OPERATOR))
    operator.open("/events?event_type=pillarbox.*")
    operator.wait_for_text("#none", "No matching events")
