from django.db import migrations

from pillarbox.inbox.django.schema import CreateInbox


class Migration(migrations.Migration):
    initial = True
    operations = [CreateInbox()]
