"""Parses every `manage.py` command of the guide with the parser of that command. Tests of Django run them."""

from __future__ import annotations

import json
import re
import subprocess

from tests.guide.page import everything
from tests.processes import NEWEST, environment, python

PARSE = """
import json, sys
import django
from django.conf import settings
from django.core.management import get_commands, load_command_class
settings.configure(
    INSTALLED_APPS=["pillarbox", "pillarbox.inbox.django", "django_celery_outbox"], USE_TZ=True,
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
)
django.setup()
for name, *arguments in json.load(sys.stdin):
    print("manage.py", name, *arguments)
    load_command_class(get_commands()[name], name).create_parser("manage.py", name).parse_args(arguments)
"""


def commands() -> set[tuple[str, ...]]:
    texts = [text for page in everything() for text in (*page.spans(), *(block.code for block in page.fences))]
    found = re.findall(r"manage\.py ([a-z_]+(?: [\w=-]+)*)", "\n".join(texts))
    return {tuple(command.split()) for command in found}


def test_commands_of_django_are_known_with_their_arguments() -> None:
    given = sorted(commands())
    assert ("pillarbox_relay", "--source", "django-celery-outbox") in given
    parsed = subprocess.run(
        [python(NEWEST), "-c", PARSE], input=json.dumps(given), env=environment(), capture_output=True, text=True
    )
    assert parsed.returncode == 0, parsed.stdout + parsed.stderr
