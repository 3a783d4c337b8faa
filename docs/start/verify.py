"""Verifies a request. The guide's page on HTTP shows it; `python/tests/guide` runs it."""

import json
import os

from standardwebhooks import Webhook

webhook = Webhook(os.environ["BILLING_SECRET"])


def receive(headers: dict[str, str], body: bytes) -> dict:
    """Returns the event of a request, or raises WebhookVerificationError: answer 401 then."""
    webhook.verify(body, headers)  # header names in lower case
    return {"id": headers["webhook-id"], "type": headers["pillarbox-event-type"], "payload": json.loads(body)}
