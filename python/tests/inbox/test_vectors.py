"""Every kit answers the same requests in the same way: valid ones, and hostile ones."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from tests.inbox.kits import KITS, VECTORS


def body(request: dict) -> bytes:
    if "body_base64" in request:
        return base64.b64decode(request["body_base64"])
    return request["body"].encode() if "body" in request else b'"%s"' % (b"x" * request["body_letters"])


@pytest.mark.parametrize("name", KITS)
def test_every_request_is_answered_as_expected(name: str, start, tmp_path: Path) -> None:
    clock = tmp_path / "clock"
    clock.write_text(str(VECTORS["now"]))
    settings = {"INBOX_CLOCK": str(clock), "INBOX_MAX_BODY": str(VECTORS["max_body"])}
    kit = start(name, INBOX_KEYS=" ".join(VECTORS["keys"]), **settings)
    expected, wrong = [], {}
    for request in VECTORS["requests"]:
        clock.write_text(str(request.get("now", VECTORS["now"])))
        response = kit.post(request["headers"], body(request))
        if response.status != request["status"]:
            wrong[request["name"]] = response
        if request["handled"]:
            expected.append(next(value for name, value in request["headers"] if name.lower() == "webhook-id"))
    assert not wrong
    assert kit.handled() == sorted(expected)
    assert kit.recorded() == sorted(expected)
