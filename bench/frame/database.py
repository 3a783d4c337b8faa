"""A database of its own for whatever is measured, fresh or copied from one that was filled before."""

from __future__ import annotations

from typing import Any, LiteralString, cast
from urllib.parse import urlsplit

import psycopg
from psycopg import sql


class Database:
    """One database of the private server."""

    def __init__(self, server: str, name: str) -> None:
        self.name = name
        self.url = urlsplit(server)._replace(path=f"/{name}").geturl()
        self._server = server

    @classmethod
    def create(cls, server: str, name: str, template: Database | None = None) -> Database:
        """Anew: one of that name is dropped. A template is copied file by file, with its statistics and hint bits."""
        database = cls(server, name)
        database.drop()
        source = sql.SQL("TEMPLATE template0 ENCODING 'UTF8'")
        if template is not None:
            source = sql.SQL("TEMPLATE {} STRATEGY file_copy").format(sql.Identifier(template.name))
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {} {}").format(sql.Identifier(name), source))
        return database

    def connect(self) -> psycopg.Connection[Any]:
        """A connection that commits each statement by itself."""
        return psycopg.connect(self.url, autocommit=True)

    def query(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """What a statement answers."""
        with self.connect() as connection:
            return connection.execute(cast(LiteralString, statement), values or None).fetchall()

    def value(self, statement: str, *values: object) -> Any:
        """The first column of the first row."""
        return self.query(statement, *values)[0][0]

    def execute(self, statement: str, *values: object) -> None:
        """A statement that answers nothing, or whose answer is not wanted."""
        with self.connect() as connection:
            connection.execute(cast(LiteralString, statement), values or None)

    def rest(self, *tables: str) -> None:
        """After filling: statistics, hint bits and the visibility map are made, and what is dirty is written."""
        for table in tables:
            self.execute(f"VACUUM ANALYZE {table}")
        self.execute("CHECKPOINT")

    def drop(self) -> None:
        """Whoever is connected loses the connection."""
        with psycopg.connect(self._server, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(self.name)))
