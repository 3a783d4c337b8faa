"""Prints the messages of a queue on RabbitMQ, oldest first, and leaves them there: URL QUEUE."""

import base64
import json
import sys

import pika

url, queue = sys.argv[1:]
# A URL ends with the virtual host; for pika the host / is percent-encoded.
url = url[:-2] + "/%2F" if url.endswith("//") else url
with pika.BlockingConnection(pika.URLParameters(url)) as connection:
    channel = connection.channel()
    count = channel.queue_declare(queue, passive=True).method.message_count
    seen = 0
    if count:
        # More deliveries, while another client publishes, would race with the end of the consumer.
        channel.basic_qos(prefetch_count=count)
        for method, properties, body in channel.consume(queue):
            headers = {name: str(value) for name, value in (properties.headers or {}).items()}
            for name in ("content_type", "delivery_mode", "message_id", "type", "timestamp", "app_id"):
                headers[name.replace("_", "-")] = str(getattr(properties, name))
            headers["routing-key"] = method.routing_key
            headers["exchange"] = method.exchange
            print(json.dumps({"body": base64.b64encode(body).decode(), "headers": headers}))
            seen += 1
            if seen == count:
                break
        # Puts them back, in their order.
        channel.cancel()
        channel.basic_nack(0, multiple=True, requeue=True)
    # The queue has put all of them back when it replies.
    channel.queue_declare(queue, passive=True)
