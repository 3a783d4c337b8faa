"""The messages that adopted.rs is measured by are those that django-celery-outbox's relay really publishes."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PUBLISHED = ROOT / "crates" / "pillarbox" / "src" / "celery" / "adopted" / "published.json"


def test_its_own_relay_publishes_these_messages() -> None:
    """What Celery adds in later versions shows here first."""
    cases = json.loads(PUBLISHED.read_text())
    done = subprocess.run(
        [sys.executable, "-m", "tests.adopted.published", "messages"],
        cwd=ROOT / "python",
        input=json.dumps([case["row"] for case in cases]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [case["message"] for case in cases]
