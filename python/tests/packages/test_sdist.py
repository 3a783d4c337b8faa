"""The source distribution: real files in place of links, and a workspace that cargo reads without this tree."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    room = tmp_path_factory.mktemp("sdist")
    maturin = Path(sys.executable).with_name("maturin")
    subprocess.run((maturin, "sdist", "--out", room), cwd=PACKAGE, check=True, capture_output=True)
    (archive,) = room.glob("pillarbox-*.tar.gz")
    with tarfile.open(archive) as files:
        assert all(member.isfile() for member in files.getmembers())
        files.extractall(room, filter="data")
    return room / archive.name.removesuffix(".tar.gz")


def test_the_python_package_is_whole(unpacked):
    package = PACKAGE / "pillarbox"
    files = [path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert sum(path.is_symlink() for path in files) > 50
    for path in files:
        assert (unpacked / "pillarbox" / path.relative_to(package)).read_bytes() == path.read_bytes(), path
    for name in ("LICENSE-APACHE", "LICENSE-MIT", "README.md"):
        assert (unpacked / name).read_bytes() == (PACKAGE / name).read_bytes()


def test_the_crates_are_whole(unpacked):
    crates = PACKAGE.parent / "crates"
    for name in ("pillarbox", "pillarbox-admin", "pillarbox-cli", "pillarbox-sinks"):
        for folder in ("src", "sql", "assets", "templates"):
            for path in (crates / name / folder).rglob("*"):
                assert not path.is_file() or (unpacked / "crates" / path.relative_to(crates)).is_file(), path
    defaults = PACKAGE.parent / "pillarbox.default.toml"
    assert (unpacked / "crates/pillarbox-cli/pillarbox.default.toml").read_bytes() == defaults.read_bytes()
    command = ("cargo", "metadata", "--locked", "--offline", "--no-deps", "--format-version", "1")
    subprocess.run(command, cwd=unpacked, check=True, capture_output=True)
