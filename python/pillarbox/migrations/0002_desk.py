"""Tables of the admin's jobs and sessions, made by the core's own file. Django has no models of them."""

from django.db import migrations

from pillarbox.schema import ApplyOutbox


class Migration(migrations.Migration):
    dependencies = [("pillarbox", "0001_initial")]

    operations = [ApplyOutbox(2, "desk")]
