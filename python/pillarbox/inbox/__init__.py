"""Receives events: verifies the signature, records the event in the handler's transaction, handles it, and answers.

`pillarbox.inbox.django` and `pillarbox.inbox.starlette` serve HTTP. `once` is for the consumers of brokers. This
package imports neither Django nor Starlette, and needs `pip install pillarbox[inbox]`.
"""

from __future__ import annotations

from pillarbox.inbox.errors import InFlight, Never, RolledBack
from pillarbox.inbox.event import Event
from pillarbox.inbox.keys import InvalidKey
from pillarbox.inbox.once import cleanup, create_table, once
from pillarbox.inbox.receive import Answer, Inbox

__all__ = [
    "Answer",
    "Event",
    "InFlight",
    "Inbox",
    "InvalidKey",
    "Never",
    "RolledBack",
    "cleanup",
    "create_table",
    "once",
]
