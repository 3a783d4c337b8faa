"""Every page of the admin, with something on it to look at."""

from __future__ import annotations

from . import furniture
from .browser import Browser
from .furniture import new_case
from .program import Admin


class Places:
    """Their addresses by their names. All of them are an operator's, but for the login."""

    ERRORS = {"missing": 404}
    """Pages that are answered with an error, which Chromium tells the console."""

    def __init__(self, admin: Admin) -> None:
        case = new_case("places")
        self.sent = furniture.delivered(admin, "both.placed", new_case("places"), aggregate=("Basket", case))
        furniture.scheduled(admin, "both.reminded", case, aggregate=("Basket", case))
        self.case = case
        dead = furniture.failed(admin, "mail.refused", case, 2)
        self.scheduled = furniture.scheduled(admin, "orders.later", case)
        furniture.parked(admin, case)
        self.tried = furniture.tried(admin, "orders.tried", case)
        self.dead = dead[0]
        self.job: str | None = None

    def all(self) -> dict[str, str]:
        return {
            "overview": "/",
            "overview of a day": "/?range=24h",
            "events": "/events",
            "events filtered": "/events?state=failed&event_type=mail.*",
            "events of a day": "/events?when=2026",
            "no events": "/events?search=there-is-no-such-thing",
            "event": f"/events/{self.tried}",
            "dead letter": f"/events/{self.dead}",
            "scheduled event": f"/events/{self.scheduled}",
            "dead letters": "/dead-letters",
            "preview": "/bulk?action=retry&state=failed&event_type=mail.refused",
            "preview of marking failed": "/bulk?action=fail&state=scheduled&event_type=orders.later",
            "search": f"/search?q={self.case}",
            "question": f"/chosen?action=retry&id={self.dead}&id={self.sent}",
            "question before a replay": f"/events/{self.sent}/replay",
            "question before marking failed": f"/chosen?action=fail&id={self.scheduled}",
            "destinations": "/destinations",
            "jobs": "/jobs",
            **({"job": self.job} if self.job else {}),
            "audit": "/audit",
            "missing": "/there-is-no-such-page",
        }

    def start_job(self, browser: Browser) -> None:
        """One that ends, for whoever looks at jobs."""
        browser.open("/bulk?action=retry&state=failed&event_type=nothing.like.it")
        browser.open("/bulk?action=replay&state=delivered&event_type=both.placed")
        browser.click("#start")
        browser.wait("it is done", lambda: browser.text("#job-state") == "done")
        self.job = browser.path.partition("?")[0]

    def open(self, browser: Browser, name: str) -> None:
        if status := self.ERRORS.get(name):
            browser.expect(f"status of {status}")
        browser.open(self.all()[name])
