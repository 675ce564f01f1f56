"""A web shop. An order and the task that packs it are stored in one transaction, or neither is."""

from functools import cache
from typing import Any

import sqlalchemy as sa
from flask import Flask, request

from mainspring import Mainspring, TaskContext

app = Mainspring()
web = Flask(__name__)

metadata = sa.MetaData()
orders = sa.Table(
    "orders",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("item", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
)


class CardDeclinedError(Exception):
    """The customer cannot pay."""


@cache
def database() -> sa.Engine:
    """The shop's tables are in the database that also has the tasks."""
    url = sa.make_url(app.database_url).set(drivername="postgresql+psycopg")
    engine = sa.create_engine(url)
    metadata.create_all(engine)
    return engine


@web.post("/orders")
def order() -> Any:
    wanted = request.form
    with database().begin() as connection:
        new = orders.insert().values(item=wanted["item"], state="paid").returning(orders.c.id)
        number = connection.scalar(new)
        app.sync.submit(pack, {"order": number}, connection=connection)
        # If anything fails from here on, the order and its task vanish together. After the commit
        # both are on disk, so no order is forgotten, whatever is killed in between.
        charge(wanted["card"])
    return {"order": number}, 201


def charge(card: str) -> None:
    if card != "good":
        raise CardDeclinedError


@web.errorhandler(CardDeclinedError)
def declined(_: CardDeclinedError) -> Any:
    return {"error": "card declined"}, 402


@web.get("/orders")
def list_orders() -> Any:
    with database().connect() as connection:
        rows = connection.execute(sa.select(orders).order_by(orders.c.id))
        return [dict(row) for row in rows.mappings()]


@app.task("pack", timeout=30)
def pack(ctx: TaskContext, order: int) -> None:
    """Pack an order: its new state and the end of the task are one transaction as well, so that
    it happens exactly once, although a task may start more than once.
    """
    with database().begin() as connection:
        connection.execute(orders.update().where(orders.c.id == order).values(state="packed"))
        ctx.complete_in_sync(connection)
