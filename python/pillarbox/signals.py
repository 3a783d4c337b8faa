"""Signals: what becomes of a Celery task that went into the outbox.

``outbox_message_created`` (task_id, task_name) is sent by :class:`pillarbox.celery.OutboxCelery`, in the caller's
transaction: a receiver's error reaches the caller. The others are sent by ``manage.py pillarbox_relay``, in its own
process and only there, after the relay has settled the task: at most once per outcome, and not at all if the command
dies between the two. A receiver's error is logged and stops nothing.

- ``outbox_message_sent``: task_id, task_name.
- ``outbox_message_failed``: task_id, task_name, retries; only while the task will be tried again.
- ``outbox_message_dead_lettered``: task_id, task_name, and the lists task_ids, task_names.
"""

from django.dispatch import Signal

__all__ = [
    "outbox_message_created",
    "outbox_message_dead_lettered",
    "outbox_message_failed",
    "outbox_message_sent",
]

outbox_message_created = Signal()
outbox_message_sent = Signal()
outbox_message_failed = Signal()
outbox_message_dead_lettered = Signal()
