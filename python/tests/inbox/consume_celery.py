"""A Celery worker that bills each order once: celery -A tests.inbox.consume_celery worker"""

import os
import signal
from contextlib import closing

import psycopg
from celery import Celery

from pillarbox.inbox import once

app = Celery("billing", broker=os.environ["BROKER"])
app.conf.update(task_default_queue=os.environ["QUEUE"], task_acks_late=True, broker_connection_retry_on_startup=True)


@app.task(bind=True, name="bill")
def bill(self, order):
    """Dies after the commit and before its ack, if the message is new."""
    with closing(psycopg.connect(os.environ["DATABASE_URL"])) as connection:
        insert = "INSERT INTO invoice VALUES (%s)"
        is_new = once(connection, self.request.id, lambda: connection.execute(insert, [order]), consumer="billing")
        connection.execute("INSERT INTO delivery (is_new) VALUES (%s)", [is_new])
        connection.commit()
    if is_new:
        os.kill(os.getpid(), signal.SIGKILL)
