"""Prints the events of topics, each once: pip install confluent-kafka; python3 kafka_consumer.py 127.0.0.1:9092 Order"""

import sys

from confluent_kafka import Consumer

consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": "printer", "auto.offset.reset": "earliest"})
consumer.subscribe(sys.argv[2:])
seen = set()  # A real consumer remembers ids in the transaction of its own work.
while True:
    message = consumer.poll(1)
    if message is None:
        continue
    if message.error():
        sys.exit(str(message.error()))
    headers = {name: value.decode() for name, value in message.headers()}
    if headers["pillarbox-event-id"] not in seen:
        seen.add(headers["pillarbox-event-id"])
        print(headers["pillarbox-event-type"], message.key().decode(), message.value().decode(), flush=True)
