"""The admin on PostgreSQL and on SQLite, and one browser for all tests. Tests keep apart by their events' types."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from selenium import webdriver

from tests import servers

from . import browser as chromium
from .browser import Browser
from .places import Places
from .program import OPERATOR, Admin, Users


@pytest.fixture(scope="session")
def users() -> Users:
    return Users.make()


@pytest.fixture(scope="session", params=["postgres", "sqlite"])
def admin(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, users: Users) -> Iterator[Admin]:
    """A running relay with its admin."""
    directory = tmp_path_factory.mktemp(f"admin-{request.param}")
    database = servers.create_database() if request.param == "postgres" else f"sqlite://{directory}/outbox.db"
    with Admin(directory, database, users) as admin:
        yield admin
        admin.processes.check()


@pytest.fixture(scope="session")
def furnished(admin: Admin) -> Places:
    return Places(admin)


@pytest.fixture(scope="session")
def driver() -> Iterator[webdriver.Chrome]:
    driver = chromium.start()
    yield driver
    driver.quit()


@pytest.fixture
def visitor(driver: webdriver.Chrome, admin: Admin) -> Iterator[Browser]:
    """Somebody who is not known yet. Whatever a test does, the console stays silent and no other host is asked."""
    browser = Browser(driver, admin)
    browser.reset()
    yield browser
    browser.check()


@pytest.fixture
def operator(visitor: Browser) -> Browser:
    """Somebody who may act."""
    return visitor.become(OPERATOR)


@pytest.fixture
def places(operator: Browser, furnished: Places) -> Places:
    """Every page, with something on it."""
    if furnished.job is None:
        furnished.start_job(operator)
    return furnished
