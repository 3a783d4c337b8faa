"""Who may do what: a viewer looks and cannot act, and nobody acts without the token of a page."""

from __future__ import annotations

import json

import pytest

from . import furniture
from .browser import Browser
from .furniture import new_case
from .program import OPERATOR, VIEWER, Admin

ACTIONS = (
    "/events/{event}/retry",
    "/events/{event}/fail",
    "/events/{event}/replay",
    "/destinations/orders/pause",
    "/destinations/orders/test",
    "/bulk",
)


@pytest.fixture
def viewer(visitor: Browser) -> Browser:
    return visitor.become(VIEWER)


def post(browser: Browser, path: str, fields: dict[str, str]) -> int:
    """From within the page, with the cookies of whoever looks at it."""
    options = f"{{method: 'POST', body: new URLSearchParams({json.dumps(fields)}), redirect: 'manual'}}"
    return browser.promise(f"fetch({json.dumps(path)}, {options}).then(answer => answer.status)")


def test_a_viewer_sees_everything_and_no_button_to_act(viewer: Browser, admin: Admin) -> None:
    case = new_case("viewer")
    (event,) = furniture.failed(admin, f"orders.{case}", case)
    pages = ("/", "/events?state=failed", f"/events/{event}", "/dead-letters", "/destinations", "/jobs", "/audit")
    for page in pages:
        viewer.open(page)
        assert viewer.text("#who") == f"{VIEWER} · viewer"
        # Logging out is all that can be posted.
        assert viewer.attributes("form[method=post]", "action") == ["/logout"], page
        assert not viewer.has('a[href*="/bulk"]'), page
    viewer.open(f"/events/{event}")
    token = viewer.find("#logout input[name=csrf]").get_property("value")
    for action in ACTIONS:
        viewer.expect("status of 403")
        assert post(viewer, action.format(event=event), {"csrf": token, "action": "retry"}) == 403, action
    viewer.expect("status of 403")
    viewer.open("/bulk?action=retry")
    assert "operator" in (viewer.text("#detail") or "")
    assert admin.show(event)["state"] == "failed"
    viewer.open("/destinations")
    assert not viewer.has("#orders .state.paused")


def test_without_the_token_of_a_page_nothing_is_done(operator: Browser, admin: Admin) -> None:
    case = new_case("token")
    (event,) = furniture.failed(admin, f"orders.{case}", case)
    operator.open(f"/events/{event}")
    operator.script("document.querySelector('#retry input[name=csrf]').remove()")
    operator.expect("status of 403")
    operator.click("#do-retry")
    operator.wait_for_text("#detail", "token is missing")
    for action in ACTIONS:
        operator.expect("status of 403")
        assert post(operator, action.format(event=event), {"csrf": "guessed", "action": "retry"}) == 403, action
    assert admin.show(event)["state"] == "failed"
    operator.open("/audit")
    assert not any(event in line for line in operator.texts("#audit tr[data-audit]"))


def test_the_audit_shows_who_did_what(operator: Browser, admin: Admin) -> None:
    event = furniture.scheduled(admin, "orders.audited", new_case("audit"))
    operator.open(f"/events/{event}")
    operator.click("#do-fail")
    operator.wait_for_text("#notice", "The event is marked failed.")
    operator.become(VIEWER).open("/audit")
    (line,) = [line for line in operator.texts("#audit tr[data-audit]") if event in line]
    assert OPERATOR in line
    assert "fail" in line
    assert operator.has(f'#audit a[href="/events/{event}"]')
