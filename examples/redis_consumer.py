"""Reads events from the stream "orders" as the group "mailer": REDIS_URL=redis://127.0.0.1:6379/0 python3 redis_consumer.py"""

import json
import os

import redis

client = redis.Redis.from_url(os.environ["REDIS_URL"])
try:
    client.xgroup_create("orders", "mailer", id="0", mkstream=True)
except redis.ResponseError as error:
    if "BUSYGROUP" not in str(error):
        raise
while True:
    for _, entries in client.xreadgroup("mailer", "mailer-1", {"orders": ">"}, count=100, block=5000) or []:
        for entry, fields in entries:
            order = json.loads(fields[b"body"])
            print(fields[b"pillarbox-event-id"].decode(), fields[b"pillarbox-event-type"].decode(), order, flush=True)
            client.xack("orders", "mailer", entry)
