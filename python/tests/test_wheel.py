"""The wheel: in an empty virtual environment it brings the program and the Django app, migrations and all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1]
SETTINGS = """
SECRET_KEY = "x"
INSTALLED_APPS = ["pillarbox"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.db"}}
"""


def run(*command: str | Path, **more: str) -> str:
    cwd = more.pop("cwd", None)
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "DJANGO_SETTINGS_MODULE")}
    answer = subprocess.run(command, cwd=cwd, env={**clean, **more}, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of programs of a virtual environment that has the wheel and nothing else."""
    room = tmp_path_factory.mktemp("wheel")
    maturin = Path(sys.executable).with_name("maturin")
    run(maturin, "build", "--profile", "dev", "--locked", "--out", room, cwd=str(PACKAGE))
    (wheel,) = room.glob("pillarbox-*.whl")
    venv.create(room / "venv", symlinks=True)
    python = room / "venv" / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index", wheel)
    return python.parent


def test_the_program_and_the_package_are_there_without_django(installed):
    version = run(installed / "pillarbox", "--version").split()
    assert version[0] == "pillarbox"
    asked = "import pillarbox; print(pillarbox.__version__)"
    assert run(installed / "python", "-c", asked).split() == version[1:]


def test_the_demo_works_without_this_tree(installed, tmp_path):
    verdict = json.loads(
        run(installed / "pillarbox", "demo", "--orders", "60", "--seed", "7", "--json", cwd=str(tmp_path))
    )
    assert verdict["ok"], verdict


def test_django_migrates_and_the_program_works_on_it(installed, tmp_path):
    (tmp_path / "shop_settings.py").write_text(SETTINGS)
    # Django from where these tests run, Pillarbox from the wheel.
    path = f"{tmp_path}:{sysconfig.get_paths()['purelib']}"
    manage = (installed / "python", "-m", "django")
    environment = {"cwd": str(tmp_path), "PYTHONPATH": path, "DJANGO_SETTINGS_MODULE": "shop_settings"}
    run(*manage, "migrate", "--verbosity", "0", **environment)
    where = run(*manage, "shell", "-c", "import pillarbox; print(pillarbox.__file__)", **environment)
    assert str(installed.parent) in where
    assert json.loads(run(*manage, "pillarbox_stats", "--json", **environment))["total"] == 0
    stats = run(
        installed / "pillarbox", "stats", "--json", cwd=str(tmp_path), PILLARBOX_DATABASE_URL="sqlite://shop.db"
    )
    assert json.loads(stats)["due"] == 0
    run(*manage, "check", "--fail-level", "WARNING", **environment)
    points = "from importlib.metadata import entry_points; print([p.value for p in entry_points(group='pytest11')])"
    assert "pillarbox.testing" in run(installed / "python", "-c", points)
