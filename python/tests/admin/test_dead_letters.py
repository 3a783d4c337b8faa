"""Dead letters: retrying a group with preview, rate, progress and result, cancelling, and retrying all of a filter."""

from __future__ import annotations

from . import furniture
from .browser import Browser
from .furniture import new_case
from .program import OPERATOR, Admin


def count(browser: Browser, css: str) -> int:
    return int((browser.text(css) or "-1").replace(",", ""))


def state_of_job(browser: Browser) -> str | None:
    return browser.text("#job-state")


def test_a_group_is_retried_with_preview_progress_and_result(operator: Browser, admin: Admin) -> None:
    case = new_case("group")
    events = furniture.failed(admin, f"crm.{case}", case, 6)
    others = furniture.failed(admin, f"mail.{case}", new_case("other"), 2)
    operator.open(f"/dead-letters?event_type=*.{case}")
    assert sorted(operator.attributes("#groups tr[data-group]", "data-destination")) == ["crm", "mail"]
    group = '#groups tr[data-destination="crm"]'
    assert operator.text(f"{group} td[data-label=count]") == "6"
    assert "410 Gone" in (operator.text(group) or "")

    admin.receiver.accept(case)
    operator.click(f"{group} a.button")
    operator.wait_for_text("h1", "Retry 6 events?")
    assert "crm" in (operator.text("#preview") or "")
    operator.fill("#rate", "1")
    operator.click("#start")
    operator.wait_for_text("#notice", "The job has started.")
    operator.script("window.sameDocument = true")
    operator.wait("some of it is done", lambda: 0 < count(operator, "#job-done") < 6)
    assert state_of_job(operator) == "running"
    operator.wait("it is done", lambda: state_of_job(operator) == "done")
    assert operator.script("return window.sameDocument"), "the page was not loaded again"
    assert count(operator, "#job-done") == count(operator, "#job-changed") == 6
    assert not operator.has("#cancel")
    assert {one.event_id for one in admin.receiver.wait_for(case, 6)} == set(events)
    assert all(admin.show(event)["state"] == "failed" for event in others)

    operator.open("/jobs")
    assert operator.attributes("#jobs tr[data-job]", "data-state")[0] == "done"
    operator.open("/audit")
    line = operator.texts("#audit tr[data-audit]")[0]
    assert OPERATOR in line
    assert "retry" in line
    assert line.endswith("6")


def test_a_job_is_cancelled(operator: Browser, admin: Admin) -> None:
    case = new_case("cancel")
    events = furniture.failed(admin, f"crm.{case}", case, 4)
    admin.receiver.accept(case)
    operator.open(f"/dead-letters?event_type=crm.{case}")
    operator.click("#retry-group-1")
    operator.fill("#rate", "0.1")
    operator.click("#start")
    operator.wait_for_text("#notice", "The job has started.")
    operator.click("#cancel")
    operator.wait_for_text("#notice", "The job is cancelled. It ends before its next batch.")
    operator.wait("it is cancelled", lambda: state_of_job(operator) == "cancelled")
    done = count(operator, "#job-done")
    assert done < 4
    left = [event for event in events if admin.show(event)["state"] == "failed"]
    assert len(left) == 4 - done


def test_all_of_a_filter_are_retried(operator: Browser, admin: Admin) -> None:
    case = new_case("all")
    furniture.failed(admin, f"crm.{case}", case, 2)
    furniture.failed(admin, f"mail.{case}", case, 1)
    admin.receiver.accept(case)
    operator.open(f"/dead-letters?event_type=*.{case}")
    operator.click("#retry-all")
    operator.wait_for_text("h1", "Retry 3 events?")
    operator.click("#start")
    operator.wait("it is done", lambda: state_of_job(operator) == "done")
    assert len(admin.receiver.wait_for(case, 3)) == 3
    operator.open(f"/dead-letters?event_type=*.{case}")
    operator.wait_for_text("#groups", "No dead letters in this time.")
