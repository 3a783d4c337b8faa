"""Prints the messages of a topic, oldest first within a partition: kafka.py BOOTSTRAP TOPIC [PROPERTY=VALUE…]"""

import base64
import json
import sys

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

bootstrap, topic, *properties = sys.argv[1:]
consumer = Consumer(
    {
        "bootstrap.servers": bootstrap,
        "group.id": "reader",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "allow.auto.create.topics": False,
        **dict(line.split("=", 1) for line in properties),
    }
)
partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
open_partitions = set(partitions)
while open_partitions:
    message = consumer.poll(30)
    if message is None:
        sys.exit(f"no message and no end of {topic} within 30 s")
    if message.error():
        if message.error().code() != KafkaError._PARTITION_EOF:
            sys.exit(str(message.error()))
        open_partitions.discard(message.partition())
        continue
    headers = {name: value.decode() for name, value in message.headers() or []}
    key = message.key()
    line = {
        "body": base64.b64encode(message.value()).decode(),
        "headers": {**headers, "(partition)": str(message.partition()), "(key)": "(none)" if key is None else key.decode()},
    }
    print(json.dumps(line))
consumer.close()
