# receiver.py
import os

import psycopg
from fastapi import FastAPI
from pillarbox.inbox.starlette import receiver

app = FastAPI()


@app.post("/events")
@receiver("billing", os.environ["BILLING_SECRETS"].split(), lambda: psycopg.connect(os.environ["DATABASE_URL"]))
def events(event, connection):
    values = [event.aggregate_id, event.json()["total"]]
    connection.execute("INSERT INTO invoice (order_id, total) VALUES (%s, %s)", values)
