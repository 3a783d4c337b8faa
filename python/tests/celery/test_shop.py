"""The example runs, and its worker does what was committed and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.django.program import program

SHOP = Path(__file__).parents[2] / "examples" / "shop"


@pytest.mark.parametrize("broker", ["redis", "rabbitmq"])
def test_the_shop(broker):
    ran = subprocess.run(
        [sys.executable, SHOP / "run", "--broker", broker],
        env={**os.environ, "PILLARBOX_PROGRAM": str(program())},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    lines = ran.stdout.splitlines()
    for number, customer, total in ((1, "Ada", "12.50"), (2, "Grace", "99.90"), (3, "Linus", "5.00")):
        assert f"shop: order {number} of {customer} is placed" in lines
        assert f"worker: order {number} of {customer} is confirmed" in lines
        assert f"worker: order {number} of {customer} is packed" in lines
        assert f"worker: heard that {customer} has ordered for {total}" in lines
    assert "shop: the bank refuses 9999.00 for Mallory: no order, no event, no task" in lines
    assert sum("Mallory" in line for line in lines) == 1
    assert lines[-1] == "shop: everything that was committed was done, and nothing else"
