"""Prints the events that examples/amqp.toml sends to RabbitMQ. Needs pika."""

import pika

with pika.BlockingConnection(pika.URLParameters("amqp://guest:guest@127.0.0.1:5672/%2F")) as connection:
    channel = connection.channel()
    # After ten seconds without a message, `consume` returns None.
    for method, properties, body in channel.consume("orders", inactivity_timeout=10):
        if method is None:
            break
        print(properties.message_id, properties.type, body.decode())
        channel.basic_ack(method.delivery_tag)
