"""axe finds nothing on any page, light or dark, wide or narrow, that keeps people out: not even something minor."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests import processes

from .browser import DESK, PHONE, Browser
from .places import Places

AXE = processes.ROOT / ".tools/node_modules/axe-core/axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


COLOURS = ["color-contrast", "link-in-text-block"]
"""All that is another thing in the dark."""
ON_A_PHONE = (
    "overview",
    "events",
    "event",
    "search",
    "question",
    "question before a replay",
    "dead letters",
    "preview",
    "destinations",
    "jobs",
    "job",
    "audit",
    "missing",
)
"""One page of each kind: a narrow window shows the others in the same way."""


def findings(browser: Browser, **only: list[str]) -> list[str]:
    """What axe says of the page that is open; one line for each element."""
    if not browser.script("return 'axe' in window"):
        browser.script(axe())
    ((kind, values),) = only.items()
    options = {"runOnly": {"type": kind, "values": values}, "preload": False}
    result: dict[str, Any] = browser.promise(f"axe.run(document, {json.dumps(options)})")
    assert result["passes"], "it has looked at something"
    return [
        f"{violation['impact']}: {violation['id']}: {violation['help']}: {node['target']} {node['html'][:120]}"
        for violation in result["violations"]
        for node in violation["nodes"]
    ]


def axe() -> str:
    assert AXE.exists(), f"{AXE} is missing: run scripts/setup"
    return AXE.read_text()


def look(browser: Browser, name: str) -> list[str]:
    """At the page that is open, in both colours."""
    browser.colours("light")
    light = findings(browser, tag=RULES)
    browser.colours("dark")
    dark = findings(browser, rule=COLOURS)
    return [*(f"{name}: {line}" for line in light), *(f"{name}, dark: {line}" for line in dark)]


# What stands in a page does not depend on the database.
@pytest.mark.parametrize("admin", ["postgres"], indirect=True)
def test_axe_finds_nothing(operator: Browser, places: Places) -> None:
    found: list[str] = []
    for name in places.all():
        places.open(operator, name)
        found += look(operator, name)
    places.open(operator, "events")
    operator.click("#help")
    found += look(operator, "keys")
    operator.size(*PHONE)
    for name in ON_A_PHONE:
        places.open(operator, name)
        found += look(operator, f"{name} on a phone")
    operator.cdp("Network.clearBrowserCookies")
    for name, size in (("login on a phone", PHONE), ("login", DESK)):
        operator.size(*size)
        operator.open("/login")
        found += look(operator, name)
    assert not found, "\n".join(found)
