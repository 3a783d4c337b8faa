"""A Celery worker for what celery_tasks.rs sends. There is nothing of Pillarbox in it.

With a Redis on this machine, and celery[redis] installed::

    export CELERY_BROKER_URL=redis://127.0.0.1:6379/0 CELERY_RESULT_BACKEND=redis://127.0.0.1:6379/1
    celery --workdir examples --app celery_tasks worker --queues celery,warehouse

and beside it a relay::

    PILLARBOX_DATABASE_URL="$DATABASE_URL" pillarbox relay --config examples/celery_tasks.toml
"""

from celery import Celery

app = Celery("shop")
WEIGHTS = {"lid": 2, "box": 5, "post": 30}


@app.task(name="orders.remind")
def remind(order: int, by: str) -> None:
    print(f"reminded of order {order} by {by}")


@app.task(name="orders.charge")
def charge(order: int) -> int:
    print(f"charged order {order}")
    return order


@app.task(name="orders.ship")
def ship(order: int) -> int:
    print(f"shipped order {order}")
    return order


@app.task(name="orders.tell")
def tell(order: int, news: str) -> None:
    print(f"order {order} is {news}")


@app.task(name="orders.alarm")
def alarm(request: object, error: BaseException, traceback: object) -> None:
    print(f"failed: {error}")


@app.task(name="stock.weigh")
def weigh(part: str) -> int:
    return WEIGHTS[part]


@app.task(name="orders.weigh")
def weigh_order(weights: list[int]) -> None:
    print(f"all of it weighs {sum(weights)} kg")
