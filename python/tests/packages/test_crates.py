"""The crates to publish: each can be published after the crates that it needs, and contains all that it compiles."""

from __future__ import annotations

import json
import re
import subprocess
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PUBLISHED = ("pillarbox", "pillarbox-admin", "pillarbox-cli", "pillarbox-inbox", "pillarbox-sinks")
COMPILED = ("src", "sql", "assets", "templates", "pillarbox.default.toml")
"""What a crate compiles or embeds, if it has it."""


def cargo(*arguments: str) -> str:
    command = ("cargo", *arguments, "--locked", "--offline")
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def manifests() -> dict[str, dict]:
    """The packages of the workspace, by name."""
    workspace = json.loads(cargo("metadata", "--no-deps", "--format-version", "1"))
    return {package["name"]: package for package in workspace["packages"]}


def test_no_other_crate_is_published(manifests):
    assert {name for name, package in manifests.items() if package["publish"] is None} == set(PUBLISHED)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_manifest_has_what_a_registry_shows(manifests, name):
    package = manifests[name]
    for key in ("description", "license", "repository", "readme", "keywords", "categories", "rust_version"):
        assert package[key], key
    assert len(package["keywords"]) <= 5
    assert all(len(keyword) <= 20 for keyword in package["keywords"])
    assert package["repository"] == manifests["pillarbox"]["repository"]


def test_every_crate_comes_after_those_it_needs(manifests):
    order = TopologicalSorter()
    for name in PUBLISHED:
        local = [needed for needed in manifests[name]["dependencies"] if needed.get("path")]
        # A requirement of any version is left out when the crate is published, with the test kit.
        kept = {needed["name"]: needed["req"] for needed in local if (needed["kind"], needed["req"]) != ("dev", "*")}
        assert set(kept) <= set(PUBLISHED)
        assert all(version == f"^{manifests[name]['version']}" for version in kept.values()), kept
        order.add(name, *kept)
    assert list(order.static_order())[-1] == "pillarbox-cli"


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_package_contains_all_that_it_compiles(name):
    listed = set(cargo("package", "--list", "--allow-dirty", "-p", name).split())
    folder = ROOT / "crates" / name
    files = [path for part in COMPILED for path in (folder / part, *(folder / part).rglob("*")) if path.is_file()]
    missing = {str(path.relative_to(folder)) for path in files} - listed
    assert not missing
    assert {"README.md", "LICENSE-APACHE", "LICENSE-MIT", "Cargo.lock"} <= listed
    assert not any(path.startswith("tests/") for path in listed)


def test_packing_warns_of_nothing_but_the_tests_that_stay_here(tmp_path):
    # The crates are not compiled here: that takes minutes.
    flags = ("--workspace", "--allow-dirty", "--no-verify", "--locked", "--offline", "--target-dir", tmp_path)
    packed = subprocess.run(("cargo", "package", *flags), cwd=ROOT, check=True, capture_output=True, text=True)
    warnings = re.findall(r"^warning: (.*)$", packed.stderr, re.M)
    stay = re.compile(
        r"ignoring (test|example) `\w+` as `(tests|examples)/\S+` is not included in the published package"
    )
    assert not [warning for warning in warnings if not stay.fullmatch(warning)]
    for name in PUBLISHED:
        (crate,) = (tmp_path / "package").glob(f"{name}-[0-9]*.crate")
        # A file of a megabyte would be an accident. The registry takes ten.
        assert crate.stat().st_size < 1_000_000, crate.name
