"""The outbox's tables, made by the core's own file; Django only learns which model they are."""

import django.core.serializers.json
import django.utils.timezone
from django.db import migrations, models

import pillarbox.fields
import pillarbox.ids
from pillarbox.schema import ApplyOutbox


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[ApplyOutbox(1, "outbox")],
            state_operations=[
                migrations.CreateModel(
                    name="OutboxEvent",
                    fields=[
                        (
                            "id",
                            pillarbox.fields.EventIdField(
                                default=pillarbox.ids.uuid7, editable=False, primary_key=True, serialize=False
                            ),
                        ),
                        ("seq", pillarbox.fields.SeqField(blank=True, editable=False, null=True)),
                        ("aggregate_type", models.CharField(max_length=100)),
                        ("aggregate_id", models.CharField(max_length=100)),
                        ("event_type", models.CharField(max_length=255)),
                        (
                            "payload",
                            models.JSONField(default=dict, encoder=django.core.serializers.json.DjangoJSONEncoder),
                        ),
                        (
                            "headers",
                            models.JSONField(
                                blank=True, encoder=django.core.serializers.json.DjangoJSONEncoder, null=True
                            ),
                        ),
                        (
                            "status",
                            models.CharField(
                                choices=[("pending", "Pending"), ("delivered", "Delivered"), ("failed", "Failed")],
                                default="pending",
                                max_length=20,
                            ),
                        ),
                        ("idempotency_key", models.CharField(max_length=255)),
                        ("attempts", models.PositiveIntegerField(default=0)),
                        (
                            "max_attempts",
                            models.PositiveIntegerField(blank=True, help_text="0: never given up", null=True),
                        ),
                        ("claims", models.PositiveSmallIntegerField(default=0, help_text="leases that ran out")),
                        (
                            "next_attempt_at",
                            pillarbox.fields.MomentField(blank=True, default=django.utils.timezone.now, null=True),
                        ),
                        ("claimed_by", pillarbox.fields.EventIdField(blank=True, editable=False, null=True)),
                        (
                            "parked_on",
                            models.CharField(
                                blank=True, help_text="the destination it waits for", max_length=255, null=True
                            ),
                        ),
                        ("delivered_at", pillarbox.fields.MomentField(blank=True, null=True)),
                        ("error_message", models.TextField(blank=True, default="")),
                        (
                            "created_at",
                            pillarbox.fields.MomentField(default=django.utils.timezone.now, editable=False),
                        ),
                        ("updated_at", pillarbox.fields.MomentField(auto_now=True)),
                    ],
                    options={
                        "verbose_name": "outbox event",
                        "verbose_name_plural": "outbox events",
                        "db_table": "outbox_event",
                        "ordering": ["-created_at"],
                        "constraints": [
                            models.UniqueConstraint(fields=("event_type", "idempotency_key"), name="outbox_event_key")
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="DeadLetter",
                    fields=[],
                    options={
                        "verbose_name": "dead letter",
                        "verbose_name_plural": "dead letters",
                        "proxy": True,
                        "indexes": [],
                        "constraints": [],
                    },
                    bases=("pillarbox.outboxevent",),
                ),
            ],
        ),
    ]
