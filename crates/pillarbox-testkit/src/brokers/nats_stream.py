"""Prints the messages of a stream, oldest first: nats_stream.py URLS USER PASSWORD STREAM [DIRECTORY of certificates]"""

import asyncio
import base64
import json
import ssl
import sys
import time
from pathlib import Path

import nats
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from nats.js.errors import ServiceUnavailableError

url, user, password, stream, directory = sys.argv[1:6]


def tls():
    if not directory:
        return None
    context = ssl.create_default_context(cafile=str(Path(directory, "ca.pem")))
    context.load_cert_chain(str(Path(directory, "client.pem")), str(Path(directory, "client.key")))
    return context


async def open_reader(jetstream, first):
    config = ConsumerConfig(
        deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=first, ack_policy=AckPolicy.NONE
    )
    return await jetstream.pull_subscribe("", stream=stream, config=config)


async def main():
    client = await nats.connect(url.split(","), user=user, password=password, tls=tls())
    jetstream = client.jetstream(timeout=30)
    last = (await jetstream.stream_info(stream)).state.last_seq
    done, deadline, reader = 0, time.monotonic() + 60, None
    while done < last:
        try:
            reader = reader or await open_reader(jetstream, done + 1)
            messages = await reader.fetch(500, timeout=30)
        except ServiceUnavailableError:
            # The server of the consumer restarted, and lost the consumer with its memory. Another one continues.
            if time.monotonic() > deadline:
                raise
            reader = None
            continue
        for message in messages:
            done = message.metadata.sequence.stream
            print(json.dumps({
                "body": base64.b64encode(message.data).decode(),
                "headers": {**(message.headers or {}), "nats-subject": message.subject},
            }))
    await client.close()


asyncio.run(main())
