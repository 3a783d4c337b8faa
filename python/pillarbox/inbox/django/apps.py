"""The Django app `pillarbox_inbox`: the table of the inbox, and its cleanup as a command."""

from __future__ import annotations

from django.apps import AppConfig


class InboxConfig(AppConfig):
    name = "pillarbox.inbox.django"
    label = "pillarbox_inbox"
    verbose_name = "Inbox"
