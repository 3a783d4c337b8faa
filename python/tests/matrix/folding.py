"""Folds what differs between two runs of the same call and must: ids, times, names of processes."""

from __future__ import annotations

import ast
import json
import re
from datetime import datetime
from typing import Any

from .calls import COUNTDOWN, EXPIRES
from .kinds import KINDS

UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
KIND = re.compile(
    "|".join(rf"{kind.tag}\b" + (rf"|-{kind.name}\b" if kind.worker != "plain" else "") for kind in KINDS)
)
"""What only the tags and the queues of one producer have."""
SLACK = 300
"""How many seconds later than asked for a time may lie that is counted from when something was done."""

Record = dict[str, Any]


def folded(records: list[Record], moment: float, *, adopted: bool = False) -> str:
    """The records of one call by one producer as text, equal to that of another producer if all is well.

    `adopted`: without what the producer of django-celery-outbox does not keep.
    """
    submitted = next(record["at"] for record in records if record["event"] == "submitted")
    told = [record for record in records if record["event"] != "submitted"]
    told = [json.loads(KIND.sub(lambda found: found.group()[:1].strip("-"), json.dumps(record))) for record in told]
    told = [times_folded(record, submitted, moment) for record in told]
    told = chords_folded(told)
    if adopted:
        told = [without_what_is_not_kept(record) for record in told]
    told.sort(key=lambda record: UUID.sub("", order(record)))
    return ids_folded(json.dumps(told, indent=1, sort_keys=True, ensure_ascii=False))


def order(record: Record) -> str:
    """What tells the records of a call apart without ids: tasks of a group come in any order."""
    request = record.get("request", {})
    return json.dumps([record["event"], record.get("task"), *map(request.get, ("retries", "args", "group_index"))])


def chords_folded(records: list[Record]) -> list[Record]:
    """A chord's body descends from whichever task of its header happened to end last."""
    header = {record["request"]["id"] for record in records if record.get("request", {}).get("chord")}

    def fold(value: Any, own: str | None) -> Any:
        if isinstance(value, list):
            return [fold(part, own) for part in value]
        if not isinstance(value, dict):
            return value
        result = {key: fold(part, own) for key, part in value.items()}
        for ancestor in {"parent_id", "root_id"} & result.keys():
            if result[ancestor] in header and result[ancestor] != own:
                result[ancestor] = "<one of the chord's header>"
        return result

    return [fold(record, record.get("request", {}).get("id")) for record in records]


def ids_folded(text: str) -> str:
    """Each id by when it first appears, so that the same id stays the same."""
    seen: dict[str, str] = {}
    return UUID.sub(lambda found: seen.setdefault(found.group(), f"<id {len(seen) + 1}>"), text)


def times_folded(value: Any, submitted: float, moment: float) -> Any:
    if isinstance(value, list):
        return [times_folded(part, submitted, moment) for part in value]
    if not isinstance(value, dict):
        return value
    folds = {"eta": time_folded, "expires": time_folded, "expiration": expiration_folded}
    result = {}
    for key, part in value.items():
        if key in folds and isinstance(part, str):
            result[key] = folds[key](part, submitted, moment)
        elif key == "origin" and part:
            result[key] = "<origin>"
        else:
            result[key] = times_folded(part, submitted, moment)
    return result


def time_folded(text: str, submitted: float, moment: float) -> str:
    """A time that was given stays exact, to its zone; one that was counted is folded if it is where it should be."""
    time = datetime.fromisoformat(text)
    for given in (moment, moment + 3600):
        if abs(time.timestamp() - given) < 0.001:
            return f"<moment {given - moment:+}, zone {time.utcoffset()}>"
    return seconds_folded(time.timestamp() - submitted, text)


def seconds_folded(seconds: float, text: str) -> str:
    for asked in (EXPIRES, COUNTDOWN):
        if asked - 0.01 <= seconds < asked + SLACK:
            return f"<in {asked} s>"
    return text


def expiration_folded(text: str, submitted: float, moment: float) -> str:
    """Milliseconds that are left when a message is sent."""
    for asked in (EXPIRES, int(moment + 3600 - submitted)):
        if asked - SLACK <= int(text) / 1000 <= asked + 1:
            return f"<{'as asked' if asked == EXPIRES else 'until moment + 1 h'}>"
    return text


TRACE = {"sentry-trace", "baggage"}


def without_what_is_not_kept(value: Any) -> Any:
    """django-celery-outbox drops `reply_to`, turns tuples into lists, and adds the trace of Sentry to each task."""
    if isinstance(value, list):
        return [without_what_is_not_kept(part) for part in value]
    if not isinstance(value, dict):
        return value
    result = {key: without_what_is_not_kept(part) for key, part in value.items() if key not in TRACE}
    if "reply_to" in result:
        result["reply_to"] = "<dropped>"
    # What PostgreSQL's jsonb keeps has lists only, and keys in an order of its own.
    for shown in {"argsrepr", "kwargsrepr"} & result.keys():
        result[shown] = repr_folded(result[shown])
    # Of a message that has no priority RabbitMQ and kombu say 0 or nothing; of a task that says nothing so does Celery.
    if not result.get("priority"):
        result.pop("priority", None)
    if not result.get("ignore_result"):
        result.pop("ignore_result", None)
    if not result.get("headers"):
        result.pop("headers", None)
    # Celery passes these two on as properties, too, by mistake; only Redis keeps properties that AMQP does not know.
    for shown in {"argsrepr", "kwargsrepr"} & result.get("properties", {}).keys():
        del result["properties"][shown]
    return result


def repr_folded(text: str) -> str:
    try:
        return json.dumps(ast.literal_eval(text), sort_keys=True, default=repr)
    except (SyntaxError, ValueError):
        # Cut to a length: only the outermost bracket is known to differ.
        return re.sub(r"^[\[(](.*?),?[\])]$", r"(\1)", text, flags=re.DOTALL)
