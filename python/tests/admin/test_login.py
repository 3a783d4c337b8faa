"""Coming in: with a password, with a wrong one, too often with wrong ones, and out again."""

from __future__ import annotations

import uuid

from .browser import Browser
from .program import OPERATOR, PASSWORD


def log_in(browser: Browser, name: str, password: str) -> None:
    browser.fill("#name", name)
    browser.fill("#password", password)
    browser.click("#login button[type=submit]")


def test_one_is_led_to_where_one_wanted_to_go_and_logs_out_again(visitor: Browser) -> None:
    visitor.open("/events?search=a+link")
    visitor.wait("one is asked who one is", lambda: visitor.path.startswith("/login?next="))
    assert visitor.script("return document.activeElement.id") == "name"
    log_in(visitor, OPERATOR, PASSWORD)
    visitor.wait("one is where one wanted to go", lambda: visitor.path == "/events?search=a+link")
    visitor.wait_for_text("body", OPERATOR)
    visitor.click("#logout button")
    visitor.wait("one is out", lambda: visitor.path == "/login")
    visitor.open("/")
    visitor.wait("one stays out", lambda: visitor.path.startswith("/login"))


def test_a_wrong_password_says_so_and_keeps_the_name(visitor: Browser) -> None:
    visitor.expect("status of 401")
    visitor.open("/login")
    log_in(visitor, OPERATOR, "wrong")
    visitor.wait_for_text("#login-error", "The name or the password is wrong.")
    assert visitor.find("#name").get_property("value") == OPERATOR
    assert visitor.find("#password").get_property("value") == ""
    assert visitor.script("return document.activeElement.id") == "password"
    log_in(visitor, OPERATOR, PASSWORD)
    visitor.wait("one is in", lambda: visitor.path == "/")


def test_who_tries_too_often_is_told_to_wait(visitor: Browser) -> None:
    name = f"guest-{uuid.uuid4().hex[:8]}"
    visitor.open("/login")
    # The wait is a second after the fifth failure and doubles: on a slow machine a later try is refused first.
    wrong = 0
    while wrong < 12:
        visitor.script("document.getElementById('login-error')?.remove()")
        log_in(visitor, name, "guessed")
        visitor.wait("an answer", lambda: visitor.text("#login-error"))
        if "The name or the password is wrong." not in (visitor.text("#login-error") or ""):
            break
        visitor.expect("status of 401")
        wrong += 1
    assert wrong >= 5
    visitor.expect("status of 429")
    visitor.wait_for_text("#login-error", "Too many attempts. Try again in ")


def test_a_page_that_is_open_becomes_the_log_in_page_when_the_session_ends(operator: Browser) -> None:
    operator.open("/")
    operator.wait_for_text("h1", "Overview")
    operator.cdp("Network.clearBrowserCookies")
    operator.wait("one is asked who one is", lambda: operator.path.startswith("/login?next="))


def test_a_log_in_page_that_comes_without_a_redirect_is_shown_and_no_part_of_a_page(operator: Browser) -> None:
    operator.open("/")
    operator.wait_for_text("h1", "Overview")
    operator.cdp("Network.clearBrowserCookies")
    # As behind a proxy that answers with its own page at every address.
    operator.script("history.replaceState(null, '', '/login')")
    operator.wait("the log-in page is shown", lambda: operator.has("#login"))
