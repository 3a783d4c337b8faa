"""Publishes some tasks with Celery itself: the reference for what the sink writes."""

import sys
from datetime import UTC, datetime, timedelta

from celery import Celery, chain, signature

broker, queue = sys.argv[1:]
app = Celery(broker=broker, set_as_current=True)
if broker.startswith("amqp"):
    # Otherwise this ends before RabbitMQ has put everything into the queue.
    app.conf.broker_transport_options = {"confirm_publish": True}
send = app.send_task
send("orders.process", queue=queue)
send("orders.process", (42, "Grüße", 2**70, 0.1, [None, True]), {"key": {"deep": [1]}}, queue=queue)
send("orders.process", (1,), queue=queue, countdown=60, expires=120, priority=5, time_limit=30, soft_time_limit=20)
send("orders.process", (1,), queue=queue, eta=datetime.now(UTC) + timedelta(hours=1), expires=datetime.now(UTC))
send("orders.process", (1,), queue=queue, headers={"tenant": "a", "depth": {"n": [1, 2**40, -1.5, None, False]}})
send("orders.process", (1,), queue=queue, link=signature("mail.send"), link_error=signature("mail.fail"), shadow="seen")
send("orders.process", (1,), queue=queue, ignore_result=True, delivery_mode=1, reply_to="answers", message_id="m1")
send("orders.process", (b"\xff",), queue=queue, serializer="pickle", compression="zlib")
chain(signature("orders.process", (1,), queue=queue), signature("mail.send", (2,))).apply_async()
