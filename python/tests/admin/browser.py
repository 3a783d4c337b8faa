"""Chromium, driven by selenium. It remembers what pages say to the console and which hosts they ask."""

from __future__ import annotations

import json
import os
import shutil
import urllib.parse
from collections.abc import Callable
from typing import Any

from selenium import webdriver
from selenium.common.exceptions import (
    ElementClickInterceptedException,
    ElementNotInteractableException,
    NoSuchElementException,
    StaleElementReferenceException,
    TimeoutException,
)
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from .program import Admin

PATIENCE = 30
"""Seconds. Long, because a busy machine is slow, and nobody waits for it when all is well."""
POLL = 0.05
DESK, PHONE = (1280, 800), (390, 844)
PASSING = (
    ElementClickInterceptedException,
    ElementNotInteractableException,
    NoSuchElementException,
    StaleElementReferenceException,
)
"""What is true only for a moment while a page changes."""


def start() -> webdriver.Chrome:
    """Debian's Chromium, as selenium would otherwise look for another one elsewhere."""
    options = webdriver.ChromeOptions()
    options.binary_location = program("chromium")
    options.add_argument("--headless=new")
    options.add_argument(f"--window-size={DESK[0]},{DESK[1]}")
    options.add_argument("--disable-dev-shm-usage")
    options.add_argument("--disable-background-networking")
    options.add_argument("--hide-scrollbars")
    options.add_argument("--force-device-scale-factor=1")
    options.add_argument("--lang=en")
    if os.geteuid() == 0:
        # It refuses to run as root with its sandbox. All pages here are ours.
        options.add_argument("--no-sandbox")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=program("chromedriver")))
    driver.set_page_load_timeout(PATIENCE)
    driver.set_script_timeout(PATIENCE)
    return driver


def program(name: str) -> str:
    found = shutil.which(name)
    assert found, f"{name} is missing: run scripts/setup"
    return found


class Browser:
    """One browser for all tests; `reset` makes it as if it were new."""

    def __init__(self, driver: webdriver.Chrome, admin: Admin) -> None:
        self.driver, self.admin = driver, admin
        self.said: list[str] = []
        self.asked: list[str] = []
        self.expected: list[str] = []

    # How it is.

    def reset(self) -> None:
        self.driver.get("about:blank")
        self.scripts(True)
        self.colours("light")
        self.size(*DESK)
        self.cdp("Network.clearBrowserCookies")
        self.listen()
        self.said, self.asked, self.expected = [], [], []

    def cdp(self, command: str, **parameters: Any) -> Any:
        return self.driver.execute_cdp_cmd(command, parameters)

    def scripts(self, run: bool) -> None:
        """Whether pages may run scripts; those of the tests always may."""
        self.cdp("Emulation.setScriptExecutionDisabled", value=not run)

    def colours(self, scheme: str) -> None:
        """What the system prefers: `light` or `dark`."""
        self.cdp("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def size(self, width: int, height: int) -> None:
        mobile = width < 600
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    def become(self, user: str) -> Browser:
        """Somebody who has logged in already."""
        name, value = self.admin.cookie(user)
        self.cdp("Network.setCookie", name=name, value=value, url=self.admin.url, httpOnly=True, sameSite="Strict")
        return self

    # What it does.

    def open(self, path: str) -> Browser:
        self.driver.get(f"{self.admin.url}{path}")
        return self

    @property
    def path(self) -> str:
        parts = urllib.parse.urlsplit(self.driver.current_url)
        return parts.path + (f"?{parts.query}" if parts.query else "")

    def script(self, text: str, *arguments: Any) -> Any:
        return self.driver.execute_script(text, *arguments)

    def promise(self, expression: str) -> Any:
        """What a promise comes to, in the page."""
        answer = self.cdp("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def loaded(self) -> bool:
        return self.script("return document.readyState") == "complete"

    def wait(self, what: str, check: Callable[[], Any]) -> Any:
        """Until a whole page is there and something is true of it."""
        waiting = WebDriverWait(self.driver, PATIENCE, POLL, ignored_exceptions=PASSING)
        try:
            return waiting.until(lambda _: self.loaded() and check())
        except TimeoutException:
            said = (self.text("main") or self.text("body") or "")[:800]
            message = f"waited {PATIENCE} s in vain until {what}; at {self.path}, which says:\n{said}"
            raise AssertionError(message) from None

    def find(self, css: str) -> WebElement:
        return self.wait(f"there is {css}", lambda: self.driver.find_element(By.CSS_SELECTOR, css))

    def count(self, css: str) -> int:
        return self.script("return document.querySelectorAll(arguments[0]).length", css)

    def has(self, css: str) -> bool:
        return self.count(css) > 0

    def text(self, css: str) -> str | None:
        """What is written there, as it is shown; nothing when there is no such element."""
        return self.script("return document.querySelector(arguments[0])?.innerText.trim()", css)

    def texts(self, css: str) -> list[str]:
        return self.script("return [...document.querySelectorAll(arguments[0])].map(e => e.innerText.trim())", css)

    def attributes(self, css: str, name: str) -> list[str]:
        return self.script(
            "return [...document.querySelectorAll(arguments[0])].map(e => e.getAttribute(arguments[1]))", css, name
        )

    def click(self, css: str) -> None:
        """As soon as it can be clicked. Parts of pages are replaced while they are looked at."""

        def clicked() -> bool:
            self.driver.find_element(By.CSS_SELECTOR, css).click()
            return True

        self.wait(f"{css} is clicked", clicked)

    def fill(self, css: str, text: str) -> WebElement:
        field = self.find(css)
        field.clear()
        field.send_keys(text)
        return field

    def wait_for_text(self, css: str, text: str) -> None:
        self.wait(f"{css} says {text!r}", lambda: text in (self.text(css) or ""))

    # What it noticed.

    def listen(self) -> None:
        """Takes over what was logged since the last time."""
        for line in self.driver.get_log("browser"):
            if line["level"] in ("SEVERE", "WARNING"):
                self.said.append(line["message"])
        for line in self.driver.get_log("performance"):
            message = json.loads(line["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                self.asked.append(message["params"]["request"]["url"])
            elif message["method"] == "Network.webSocketCreated":
                self.asked.append(message["params"]["url"])

    def expect(self, words: str) -> None:
        """The console may say this once in this test: Chromium tells there of every answer that is an error."""
        self.expected.append(words)

    def check(self) -> None:
        """The console is silent but for what was expected, and nobody else was asked for anything."""
        self.listen()
        said = list(self.said)
        for words in self.expected:
            found = next((line for line in said if words in line), None)
            assert found, f"the console did not say {words!r}, but {self.said}"
            said.remove(found)
        elsewhere = [url for url in self.asked if not is_of(url, self.admin.url)]
        assert not said, f"the console says {said}"
        assert not elsewhere, f"others were asked: {elsewhere}"


def is_of(url: str, origin: str) -> bool:
    """Whether asking for it stays within this origin, or within the browser."""
    return url.startswith((f"{origin}/", "data:", "about:"))
