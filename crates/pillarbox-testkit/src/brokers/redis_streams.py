"""Prints the entries of a Redis stream, oldest first: redis_streams.py URL STREAM [cluster]."""

import base64
import json
import sys

import redis

url, stream, *cluster = sys.argv[1:]
client = redis.RedisCluster.from_url(url) if cluster else redis.Redis.from_url(url)
for _, fields in client.xrange(stream):
    body = fields.pop(b"body")
    headers = {name.decode(): value.decode() for name, value in fields.items()}
    print(json.dumps({"body": base64.b64encode(body).decode(), "headers": headers}))
