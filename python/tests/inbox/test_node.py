"""The npm package: it packs, installs into an empty project with one dependency, its types check, and `once` works."""

from __future__ import annotations

import json
import os
import subprocess

from tests.inbox.kits import node_project
from tests.processes import ROOT
from tests.servers import create_database

PACKAGE = ROOT / "node"


def run(*command: str, **variables: str) -> None:
    done = subprocess.run(
        command, cwd=node_project(), env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_package_brings_the_official_library_and_nothing_else() -> None:
    lock = json.loads((node_project() / "node_modules/.package-lock.json").read_text())["packages"]
    # The other two are dependencies of standardwebhooks.
    needed = {"@pillarbox/inbox", "standardwebhooks", "@stablelib/base64", "fast-sha256"}
    assert set(lock) == {f"node_modules/{name}" for name in needed}
    assert set(lock["node_modules/@pillarbox/inbox"]["dependencies"]) == {"standardwebhooks"}


def test_the_package_is_whole_and_has_no_tests() -> None:
    installed = node_project() / "node_modules/@pillarbox/inbox"
    packed = {str(path.relative_to(installed)) for path in installed.rglob("*") if path.is_file()}
    expected = [path for folder in ("src", "sql") for path in (PACKAGE / folder).iterdir()]
    others = {"LICENSE-APACHE", "LICENSE-MIT", "README.md", "package.json"}
    assert packed == {str(path.relative_to(PACKAGE)) for path in expected} | others


def test_its_copies_are_those_of_the_repository() -> None:
    shared = ROOT / "crates/pillarbox-inbox/sql/postgres"
    assert {path.name for path in (PACKAGE / "sql").iterdir()} == {path.name for path in shared.iterdir()}
    copies = [(path, shared / path.name) for path in (PACKAGE / "sql").iterdir()]
    copies += [(PACKAGE / name, ROOT / name) for name in ("LICENSE-APACHE", "LICENSE-MIT")]
    assert [copy for copy, original in copies if copy.read_bytes() != original.read_bytes()] == []


def test_its_version_is_that_of_the_workspace() -> None:
    version = json.loads((PACKAGE / "package.json").read_text())["version"]
    assert f'version = "{version}"' in (ROOT / "Cargo.toml").read_text()


def test_its_types_check() -> None:
    strict = ("--noEmit", "--strict", "--module", "nodenext", "--target", "es2022", "--types", "node")
    run("node", "node_modules/typescript/bin/tsc", *strict, "types.ts")


def test_once_and_cleanup_and_keys() -> None:
    run("node", "--test", "once.test.mjs", DATABASE_URL=create_database())


def test_the_shared_vectors_are_current() -> None:
    subprocess.run(["node", "node/test/make-vectors.mjs", "--check"], cwd=ROOT, check=True, capture_output=True)
