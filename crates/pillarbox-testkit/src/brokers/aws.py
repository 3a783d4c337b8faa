"""SQS and SNS of moto, and boto3 as the client that reads what arrived.

serve DIRECTORY: starts a server that checks signatures and permissions, and prints one line of JSON when everything is made. With a
DIRECTORY of certificates there is a second port with TLS that asks for a client certificate.
read ENDPOINT QUEUE ID SECRET: prints and deletes the messages of a queue.
"""

import base64
import json
import ssl
import sys
import threading
from urllib.parse import quote, urlencode

import boto3

REGION = "eu-west-1"


def client(service, endpoint, key="setup", secret="setup"):
    return boto3.client(
        service, endpoint_url=endpoint, region_name=REGION, aws_access_key_id=key, aws_secret_access_key=secret
    )


def user(iam, name, actions):
    iam.create_user(UserName=name)
    statement = {"Effect": "Allow", "Action": actions, "Resource": "*"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    iam.put_user_policy(UserName=name, PolicyName="tests", PolicyDocument=document)
    key = iam.create_access_key(UserName=name)["AccessKey"]
    return {"id": key["AccessKeyId"], "secret": key["SecretAccessKey"]}


def make(endpoint):
    sqs, sns, iam = client("sqs", endpoint), client("sns", endpoint), client("iam", endpoint)
    fifo = {"FifoQueue": "true"}
    made = {"queue": sqs.create_queue(QueueName="orders")["QueueUrl"]}
    made["fifo_queue"] = sqs.create_queue(QueueName="orders.fifo", Attributes=fifo)["QueueUrl"]
    made["small_queue"] = sqs.create_queue(QueueName="small", Attributes={"MaximumMessageSize": "2048"})["QueueUrl"]
    for name, topic in (("", "orders"), ("fifo_", "orders.fifo")):
        attributes = {"FifoTopic": "true"} if name else {}
        arn = sns.create_topic(Name=topic, Attributes=attributes)["TopicArn"]
        queue = sqs.create_queue(QueueName=f"subscribed-{topic}", Attributes=fifo if name else {})["QueueUrl"]
        names = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]
        raw = {"RawMessageDelivery": "true"}
        sns.subscribe(TopicArn=arn, Protocol="sqs", Endpoint=names["QueueArn"], Attributes=raw)
        made[f"{name}topic"], made[f"{name}subscribed"] = arn, queue
    made["allowed"] = user(iam, "relay", ["sqs:*", "sns:*"])
    made["denied"] = user(iam, "nobody", ["s3:*"])
    return made


def serve(directory):
    from moto import settings
    from moto.iam.access_control import IAMRequest
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
    from moto.sqs.models import Queue
    from werkzeug.serving import make_server

    # moto counts all messages of the queue for each message that is sent. Nothing reads the counts.
    for count in ("", "_delayed", "_not_visible"):
        setattr(Queue, f"approximate_number_of_messages{count}", 0)
    # moto computes the signature of a form as botocore writes it, with + for a space. Other SDKs write %20.
    compute = IAMRequest._calculate_signature

    def as_sent(request):
        request._body = request._body or urlencode(request._data, doseq=True, quote_via=quote, safe="")
        return compute(request)

    IAMRequest._calculate_signature = as_sent
    application = DomainDispatcherApplication(create_backend_app)

    def listen(context):
        server = make_server(
            "127.0.0.1", 0, application, True, request_handler=MotoRequestHandler, ssl_context=context
        )
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server.server_address[1]

    port = listen(None)
    made = {"port": port, **make(f"http://127.0.0.1:{port}")}
    if directory:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=f"{directory}/ca.pem")
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(f"{directory}/server.pem", f"{directory}/server.key")
        made["tls_port"] = listen(context)
    # From here on, moto checks every request.
    settings.INITIAL_NO_AUTH_ACTION_COUNT = 0
    print("ready " + json.dumps(made), flush=True)
    threading.Event().wait()


def read(endpoint, queue, key, secret):
    sqs = client("sqs", endpoint, key, secret)
    while messages := sqs.receive_message(
        QueueUrl=queue, MaxNumberOfMessages=10, MessageAttributeNames=["All"], AttributeNames=["All"]
    ).get("Messages"):
        for message in messages:
            headers = {name: value["StringValue"] for name, value in message.get("MessageAttributes", {}).items()}
            for name in ("MessageGroupId", "MessageDeduplicationId"):
                if name in message["Attributes"]:
                    headers[name] = message["Attributes"][name]
            body = base64.b64encode(message["Body"].encode()).decode()
            print(json.dumps({"body": body, "headers": headers}))
        entries = [{"Id": str(i), "ReceiptHandle": m["ReceiptHandle"]} for i, m in enumerate(messages)]
        sqs.delete_message_batch(QueueUrl=queue, Entries=entries)


if __name__ == "__main__":
    {"serve": serve, "read": read}[sys.argv[1]](*sys.argv[2:])
