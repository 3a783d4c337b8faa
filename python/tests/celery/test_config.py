"""The relay's configuration from the settings of an app: what it says, and what it refuses to say."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys

import pytest
from celery import VERSION, Celery
from django.core.management import CommandError, call_command
from kombu import Exchange, Queue

from tests.celery.conftest import make
from tests.django.program import program

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: Where CELERY_OUTBOX_APP finds it.
app: Celery = None


@pytest.fixture
def printed(settings):
    def run(*arguments, **conf):
        global app
        app = make(Celery, **conf)
        app.conf.broker_url = conf.get("broker_url", "amqp://guest:hunter2@rabbit:5672//")
        settings.CELERY_OUTBOX_APP = f"{__name__}.app"
        out = io.StringIO()
        call_command("pillarbox_config", *arguments, stdout=out)
        assert "hunter2" not in out.getvalue()
        return tomllib.loads(out.getvalue())

    return run


def test_nothing_but_defaults(printed, settings):
    settings.MONITORING_METRICS_ENABLED = False
    queue = {"exchange": "celery", "exchange_type": "direct", "routing_key": "celery", "durable": True}
    assert printed() == {
        "destinations": {
            "celery": {
                "kind": "celery",
                "broker": "env:PILLARBOX_BROKER_URL",
                "default_queue": "celery",
                "declare": True,
                "queues": {"celery": queue},
            }
        },
        "routes": [{"aggregates": "celery", "to": ["celery"]}],
    }


def test_masks_and_the_retention_of_failed_events_are_the_relays_too(printed, settings):
    settings.PILLARBOX_MASK = ["$.card.number", "$..password"]
    settings.CELERY_OUTBOX_DLQ_RETENTION = {"older_than_dead": "30d"}
    config = printed()
    assert config["admin"] == {"mask": ["$.card.number", "$..password"]}
    assert config["relay"] == {"cleanup": {"failed_after": "2592000s"}}
    settings.CELERY_OUTBOX_PII_REDACTOR = lambda task_name, args, kwargs: (args, kwargs)
    tasks = ["$.body", "$.headers.argsrepr", "$.headers.kwargsrepr"]
    assert printed()["admin"] == {"mask": ["$.card.number", "$..password", *tasks]}
    assert "relay" not in printed("--source", "django-celery-outbox")


def test_wrong_settings_are_told(printed, settings):
    settings.PILLARBOX_MASK = ["card"]
    with pytest.raises(CommandError, match="PILLARBOX_MASK: 'card' is not a JSON path"):
        printed()
    settings.PILLARBOX_MASK = []
    settings.CELERY_OUTBOX_DLQ_RETENTION = {"older_than_dead": "soon"}
    with pytest.raises(CommandError, match="CELERY_OUTBOX_DLQ_RETENTION has the duration 'soon'"):
        printed()


def test_the_program_understands_what_is_printed(printed, settings, tmp_path):
    settings.PILLARBOX_MASK = ['$.card["number"]', "$..password"]
    settings.CELERY_OUTBOX_DLQ_RETENTION = {"older_than_dead": "30d"}
    printed()
    file = tmp_path / "pillarbox.toml"
    with file.open("w") as out:
        call_command("pillarbox_config", stdout=out)
    database = f"sqlite://{tmp_path / 'outbox.db'}"
    environment = {**os.environ, "PILLARBOX_BROKER_URL": "amqp://broker//", "PILLARBOX_DATABASE_URL": database}
    command = [program(), "check-config", "--config", str(file)]
    checked = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_rows_of_django_celery_outbox_need_no_routes_of_events(printed, settings):
    settings.MONITORING_STATSD_TAGS = {"service": "shop"}
    config = printed("--source", "django-celery-outbox")
    assert config["source"] == {"kind": "django-celery-outbox"}
    assert "routes" not in config
    assert config["metrics"] == {"statsd": "localhost:9125", "prefix": "celery_outbox", "tags": {"service": "shop"}}


def test_routes_are_in_the_order_in_which_celery_asks(printed):
    routes = [
        {"orders.*": "orders", "orders.mail": {"queue": Queue("mail", Exchange("mail", "topic"), "mail.#")}},
        (
            ("video.*", {"exchange": Exchange("media"), "routing_key": "video", "priority": 3}),
            ("*", {"routing_key": "x"}),
        ),
    ]
    celery = printed(task_routes=routes)["destinations"]["celery"]
    assert celery["routes"] == [
        {"tasks": "orders.mail", "queue": "mail"},
        {"tasks": "orders.*", "queue": "orders"},
        {"tasks": "video.*", "exchange": "media", "routing_key": "video", "priority": 3},
        {"tasks": "*", "queue": "celery", "routing_key": "x"},
    ]
    assert celery["queues"]["mail"]["exchange_type"] == "topic"
    assert celery["queues"]["orders"]["exchange"] == "orders"


def test_queues_with_all_that_belongs_to_them(printed):
    queues = [
        Queue("q.1", Exchange("e", "topic"), "r.#", queue_arguments={"x-queue-type": "quorum"}, message_ttl=1.5),
        Queue("temporary", Exchange("t"), "t", auto_delete=True),
        Queue("mine", Exchange("mine", durable=False), "mine", durable=False),
    ]
    celery = printed(task_queues=queues, task_default_queue="q.1")["destinations"]["celery"]
    assert celery["default_queue"] == "q.1"
    assert celery["queues"]["q.1"] == {
        "exchange": "e",
        "exchange_type": "topic",
        "routing_key": "r.#",
        "durable": True,
        "arguments": {"x-queue-type": "quorum", "x-message-ttl": 1500},
    }
    assert celery["queues"]["mine"]["durable"] is False
    assert celery["queues"]["temporary"]["exchange"] == "t"
    assert celery["declare"] is False


def test_a_default_queue_that_is_a_quorum_queue(printed):
    conf = {"task_default_queue": "mine", "task_default_exchange_type": "topic", "task_default_queue_type": "quorum"}
    queue = printed(**conf)["destinations"]["celery"]["queues"]["mine"]
    assert queue["exchange_type"] == "topic"
    # Celery has that setting since 5.5.
    assert ("arguments" in queue) is (VERSION >= (5, 5))


def test_options_of_redis(printed):
    options = {
        "global_keyprefix": "shop:",
        "priority_steps": [0, 5],
        "sep": "\x06\x17",
        "master_name": "mymaster",
        "sentinel_kwargs": {"password": "hunter2"},
        "visibility_timeout": 10,
    }
    celery = printed(broker_url="sentinel://:hunter2@a;sentinel://b", broker_transport_options=options)
    celery = celery["destinations"]["celery"]
    assert {key: celery[key] for key in ("key_prefix", "priority_steps", "separator", "master_name")} == {
        "key_prefix": "shop:",
        "priority_steps": [0, 5],
        "separator": "\x06\x17",
        "master_name": "mymaster",
    }
    assert celery["sentinel_password"] == "env:PILLARBOX_SENTINEL_PASSWORD"


def test_certificates(printed):
    celery = printed(broker_use_ssl={"ca_certs": "/etc/ca.pem"})["destinations"]["celery"]
    assert celery["ca_file"] == "/etc/ca.pem"


def router(name, args, kwargs, options, task=None, **more):
    return None


@pytest.mark.parametrize(
    ("conf", "complaint"),
    [
        ({"task_routes": router}, "task_routes is the router router, which only Python can call; replace it by a map"),
        ({"task_routes": [{"a": "b"}, "shop.routers.Router"]}, r"task_routes\[1\] is the router shop.routers.Router"),
        ({"task_routes": {re.compile("a.+"): "b"}}, "has the regular expression 'a.+'"),
        ({"task_routes": {"a?.*": "b"}}, "the pattern 'a\\?.\\*', but the relay's patterns support only"),
        ({"task_routes": {"a": {"queue": "b", "serializer": "pickle"}}}, r"\['a'\] sets serializer"),
        ({"task_routes": {"a": {"exchange": "b"}}}, "has an exchange without a routing_key"),
        ({"broker_use_ssl": {"certfile": "x"}}, "a client certificate"),
        ({"broker_use_ssl": {"ssl_cert_reqs": "none"}}, "does not verify"),
    ],
)
def test_what_cannot_be_said_is_refused_with_what_to_do(printed, conf, complaint):
    with pytest.raises(CommandError, match=complaint):
        printed(**conf)


def test_all_problems_at_once_and_none_without_routes(printed):
    routes = [router, {re.compile("x"): "y"}]
    with pytest.raises(CommandError, match=r"(?s)task_routes\[0\].*task_routes\[1\]"):
        printed(task_routes=routes)
    assert printed("--without-routes", task_routes=routes)["routes"]


@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        (None, "CELERY_OUTBOX_APP is not set; set it to the dotted path"),
        ("no.such.app", "cannot be imported"),
        ("tests.celery.test_config.router", "is a function, not a Celery app"),
        (7, "CELERY_OUTBOX_APP is a int"),
    ],
)
def test_an_app_that_is_not_there(settings, path, complaint):
    settings.CELERY_OUTBOX_APP = path
    with pytest.raises(CommandError, match=complaint):
        call_command("pillarbox_config")
