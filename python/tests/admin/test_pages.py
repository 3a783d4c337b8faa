"""What is true of all pages: they stay up to date, and need neither a mouse, nor a wide screen, nor JavaScript."""

from __future__ import annotations

import itertools

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from . import furniture
from .browser import PHONE, Browser
from .furniture import new_case
from .places import Places
from .program import Admin


def value(browser: Browser, tile: str) -> int:
    return int((browser.text(f"#tile-{tile} .value") or "-1").replace(",", "").lstrip("≈ "))


def test_the_overview_changes_without_being_loaded_again(operator: Browser, admin: Admin) -> None:
    operator.open("/")
    operator.script("window.sameDocument = true")
    before = value(operator, "scheduled")
    furniture.scheduled(admin, "orders.live", new_case("live"))
    operator.wait("a number changes", lambda: value(operator, "scheduled") == before + 1)
    assert operator.script("return window.sameDocument")
    assert operator.text("#tile-relays-alive .value") == "1"

    # It can be stopped, for those who read slowly.
    operator.click("#live")
    assert operator.find("#live").get_attribute("aria-pressed") == "false"
    operator.wait_for_text("#live", "Stopped")


def test_what_one_types_is_left_alone_by_updates(operator: Browser, admin: Admin) -> None:
    case = new_case("typing")
    event = furniture.scheduled(admin, "orders.typed", case, aggregate=("Order", case))
    operator.open(f"/events/{event}")
    operator.fill("#reason", "half a sen")
    other = furniture.scheduled(admin, "orders.typed", case, aggregate=("Order", case))
    operator.wait("the page was updated", lambda: operator.has(f'#neighbours li[data-event="{other}"]'))
    assert operator.find("#reason").get_property("value") == "half a sen"
    assert operator.script("return document.activeElement.id") == "reason"


def focused(browser: Browser) -> str:
    """Which element has the focus, as short as it can be told, and that one can see that it has it."""
    return browser.script(
        "const e = document.activeElement; if (e === document.body) return 'body';"
        "return e.id ? '#' + e.id : e.className ? '.' + e.className : e.getAttribute('href') || e.tagName.toLowerCase()"
    )


def press(browser: Browser, *keys: str) -> None:
    ActionChains(browser.driver).send_keys(*keys).perform()


def test_everything_is_reached_with_the_keyboard(operator: Browser, admin: Admin) -> None:
    event = furniture.scheduled(admin, "orders.keys", new_case("keys"))
    operator.open(f"/events/{event}")
    press(operator, Keys.TAB)
    assert focused(operator) == ".skip"
    box = operator.find(".skip").rect
    assert box["y"] >= 0, "it is seen when it has the focus"
    press(operator, Keys.ENTER)
    operator.wait("the content has the focus", lambda: focused(operator) == "#main")
    # From there the actions come next, in their order.
    reached = []
    for _ in range(3):
        press(operator, Keys.TAB)
        reached.append(focused(operator))
    assert reached == ["#do-retry", "#reason", "#do-fail"]
    width = operator.script("return getComputedStyle(document.activeElement).outlineWidth")
    assert width != "0px", "one sees where one is"

    operator.open("/")
    press(operator, "/")
    operator.wait("the search has the focus", lambda: focused(operator) == "#search")
    assert operator.find("#search").get_property("value") == ""
    press(operator, event, Keys.ENTER)
    operator.wait("it is found", lambda: operator.path == f"/events/{event}")
    # In a field it is a letter like others.
    operator.find("#reason").click()
    press(operator, "a/b")
    assert operator.find("#reason").get_property("value") == "a/b"


def test_links_in_the_frame_are_reached_in_their_order(operator: Browser) -> None:
    operator.open("/")
    press(operator, Keys.TAB, Keys.TAB)
    assert focused(operator) == ".brand"
    reached = []
    for _ in range(6):
        press(operator, Keys.TAB)
        reached.append(operator.script("return document.activeElement.getAttribute('href')"))
    assert reached == ["/", "/events", "/dead-letters", "/destinations", "/jobs", "/audit"]
    press(operator, Keys.TAB)
    assert focused(operator) == "#search"


def tip(browser: Browser) -> str:
    return browser.text(".tip:not([hidden])") or ""


def test_a_chart_tells_its_values_to_pointer_finger_and_keys(operator: Browser, admin: Admin) -> None:
    furniture.delivered(admin, "orders.charted", new_case("chart"))
    operator.open("/?range=15m")
    assert operator.count("#flow .column") == 15
    operator.wait(
        "it is counted",
        lambda: (
            operator.script(
                "return [...document.querySelectorAll('#flow .column')].at(-1).dataset.values.split('\\n')[0]"
            )
            != "0 delivered"
        ),
    )
    chart = operator.find("[data-chart][aria-labelledby=h-flow]")
    # The pointer.
    ActionChains(operator.driver).move_to_element(operator.find("#flow .shapes")).perform()
    operator.wait("the values are shown", lambda: "delivered\n" in tip(operator))
    ActionChains(operator.driver).move_to_element(operator.find("h1")).perform()
    operator.wait("they are gone", lambda: tip(operator) == "")
    # The keys: the newest values first, then back in time.
    operator.click("#live")
    operator.script("arguments[0].focus({focusVisible: true})", chart)
    operator.wait("the values are shown", lambda: tip(operator))
    newest, spoken = tip(operator), chart.get_attribute("aria-valuetext")
    assert spoken == newest.replace("\n", ": ", 1).replace("\n", ", ")
    press(operator, Keys.ARROW_LEFT)
    assert tip(operator) not in ("", newest)
    press(operator, Keys.END)
    assert tip(operator) == newest
    press(operator, Keys.ESCAPE)
    assert tip(operator) == ""
    # A finger.
    box = operator.script(
        "const box = document.querySelector('#latency .shapes').getBoundingClientRect();"
        "return {x: box.left + box.width / 2, y: box.top + 20}"
    )
    operator.cdp("Input.dispatchTouchEvent", type="touchStart", touchPoints=[box])
    operator.cdp("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    operator.wait("the values are shown", lambda: "response p95" in tip(operator))
    # The table has the same values, for everybody.
    operator.click("#exact summary")
    assert operator.count("#values tbody tr") == 15


def test_a_chart_has_a_range_and_round_ticks(operator: Browser) -> None:
    operator.open("/")
    assert operator.text(".ranges [aria-current]") == "1 h"
    for name, label, columns in (("6h", "6 h", 72), ("24h", "24 h", 96)):
        operator.click(f"#range-{name}")
        operator.wait("it is chosen", lambda label=label: operator.text(".ranges [aria-current]") == label)
        assert operator.path == f"/?range={name}"
        assert operator.count("#flow .column") == columns
        times = operator.script("return [...document.querySelectorAll('#flow .times text')].map(e => e.textContent)")
        assert 5 <= len(times) <= 7, times
        assert all(time.endswith(":00") for time in times), times
    values = operator.script("return [...document.querySelectorAll('#flow .values text')].map(e => e.textContent)")
    steps = [int(value.replace(",", "")) for value in values]
    assert steps[0] == 0, steps
    assert len({after - before for before, after in itertools.pairwise(steps)}) == 1, steps
    # It stays chosen while the page is kept up to date.
    operator.script("window.sameDocument = true; document.querySelector('#flow').dataset.seen = 'before'")
    operator.wait("it was updated", lambda: operator.script("return !document.querySelector('#flow').dataset.seen"))
    assert operator.count("#flow .column") == 96
    assert operator.script("return window.sameDocument")


def test_pages_have_an_icon(visitor: Browser) -> None:
    visitor.open("/login")
    (link,) = visitor.attributes("link[rel=icon]", "href")
    kind = visitor.promise(f"fetch({link!r}).then(answer => answer.headers.get('content-type'))")
    assert kind == "image/svg+xml"


def test_light_or_dark_is_chosen_and_remembered(operator: Browser) -> None:
    def ground() -> str:
        return operator.script("return getComputedStyle(document.body).backgroundColor")

    operator.open("/")
    light = ground()
    operator.colours("dark")
    operator.wait("it is as the system has it", lambda: ground() != light)
    dark = ground()
    operator.click("#theme")
    operator.wait("it is light", lambda: ground() == light)
    operator.open("/events")
    assert ground() == light
    operator.click("#theme")
    operator.colours("light")
    assert ground() == dark


def test_on_a_phone_nothing_has_to_be_scrolled_sideways(operator: Browser, places: Places) -> None:
    operator.size(*PHONE)
    for name, path in places.all().items():
        places.open(operator, name)
        widest = operator.script("return document.documentElement.scrollWidth")
        assert widest <= PHONE[0], f"{name} ({path}) is {widest} wide"


def test_everything_can_be_read_and_done_without_javascript(operator: Browser, admin: Admin, places: Places) -> None:
    case = new_case("plain")
    (event,) = furniture.failed(admin, "orders.plain", case)
    admin.receiver.accept(case)
    operator.scripts(False)
    for name in places.all():
        places.open(operator, name)
        assert len(operator.text("main") or "") > 20, name
        assert not operator.has("button[data-copy]:not([hidden])"), "what needs JavaScript is not offered"
        assert not operator.has("#live:not([hidden]), #theme:not([hidden])")
    operator.open("/events?state=failed&event_type=orders.plain")
    operator.click(f'tr[data-event="{event}"] a')
    operator.wait_for_text("h1", "orders.plain")
    operator.click("#do-retry")
    operator.wait_for_text("#notice", "The event is due now")
    admin.receiver.wait_for(case, 1)
