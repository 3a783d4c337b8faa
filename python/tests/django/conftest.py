"""What the tests of the Django app share: those that ask for `alias` run on each database."""

from __future__ import annotations

import shutil

import pytest

from tests.django import settings
from tests.outboxes import ALIASES


@pytest.fixture(params=ALIASES, ids=ALIASES.values())
def alias(request: pytest.FixtureRequest) -> str:
    """A database with an outbox, by its alias; the test is rolled back, unless it says otherwise."""
    request.getfixturevalue("db")
    return request.param


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "alias" in getattr(item, "fixturenames", ()) and item.get_closest_marker("django_db") is None:
            item.add_marker(pytest.mark.django_db(databases="__all__"))


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(settings.ROOM, ignore_errors=True)
