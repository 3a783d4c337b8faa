"""A receiver in Starlette or FastAPI, on uvicorn: python -m tests.inbox.receive_starlette starlette psycopg"""

import os
import sqlite3
import sys
from contextlib import closing
from urllib.parse import urlsplit

import uvicorn
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Route

from pillarbox.inbox import create_table
from pillarbox.inbox.starlette import receiver
from tests.inbox import handling

ADDRESS = os.environ["DATABASE_URL"]
FRAMEWORK, DRIVER = sys.argv[1:]


def connect():
    if DRIVER == "psycopg":
        import psycopg

        return psycopg.connect(ADDRESS)
    if DRIVER == "sqlite3":
        return sqlite3.connect(
            ADDRESS.removeprefix("sqlite://"), timeout=handling.settings()["wait"], check_same_thread=False
        )
    url = urlsplit(ADDRESS)
    place = {"host": url.hostname, "port": url.port, "user": url.username}
    if DRIVER == "pymysql":
        import pymysql

        return pymysql.connect(**place, database=url.path[1:])
    import MySQLdb

    return MySQLdb.connect(**place, database=url.path[1:])


@receiver(connect=connect, **handling.settings())
def events(event, connection):
    def execute(statement):
        with closing(connection.cursor()) as cursor:
            cursor.execute(statement)

    handling.handle(event, execute, connection.rollback)


if FRAMEWORK == "fastapi":
    app = FastAPI()
    app.post("/events")(events)
else:
    app = Starlette(routes=[Route("/events", events, methods=["POST"])])

if __name__ == "__main__":
    with closing(connect()) as connection:
        create_table(connection)
    uvicorn.run(app, host="127.0.0.1", port=int(os.environ["PORT"]), log_level="warning")
