"""Prints the messages of a stream, oldest first: nats_stream.py URLS USER PASSWORD STREAM [DIRECTORY of certificates]"""

import asyncio
import base64
import json
import ssl
import sys
from pathlib import Path

import nats
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

url, user, password, stream, directory = sys.argv[1:6]


def tls():
    if not directory:
        return None
    context = ssl.create_default_context(cafile=str(Path(directory, "ca.pem")))
    context.load_cert_chain(str(Path(directory, "client.pem")), str(Path(directory, "client.key")))
    return context


async def main():
    client = await nats.connect(url.split(","), user=user, password=password, tls=tls())
    jetstream = client.jetstream(timeout=30)
    last = (await jetstream.stream_info(stream)).state.last_seq
    config = ConsumerConfig(deliver_policy=DeliverPolicy.ALL, ack_policy=AckPolicy.NONE)
    reader = await jetstream.pull_subscribe("", stream=stream, config=config)
    done = 0 if last else None
    while done is not None and done < last:
        for message in await reader.fetch(500, timeout=30):
            done = message.metadata.sequence.stream
            print(json.dumps({
                "body": base64.b64encode(message.data).decode(),
                "headers": {**(message.headers or {}), "nats-subject": message.subject},
            }))
    await client.close()


asyncio.run(main())
