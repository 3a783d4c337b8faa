"""The workflows and the image: what they run is pinned, and their jobs may do no more than they need."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys

import pytest
import tomllib
import yaml

from tests.processes import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
RUST = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["rust-version"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_by_commit_with_their_version(path):
    used = re.findall(r"^\s*(?:- )?uses: (.+)$", path.read_text(), re.M)
    actions = [action for action in used if not action.startswith("./")]
    assert actions
    for action in actions:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action
    for local in set(used) - set(actions):
        assert (ROOT / local).is_file()


def test_an_action_has_one_version():
    text = "".join(path.read_text() for path in WORKFLOWS)
    pins = set(re.findall(r"uses: (\S+)@(\S+)", text))
    assert len({name for name, _ in pins}) == len(pins), pins


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_jobs_only_read_unless_they_say_otherwise(path):
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        writes = {scope for scope, access in job.get("permissions", {}).items() if access == "write"}
        assert not writes or name == "image" or job["environment"] == "release", name
        assert set(job.get("needs", [])) <= set(workflow["jobs"])
        for step in job.get("steps", []):
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False


def test_everything_is_built_with_the_oldest_rust_that_is_supported():
    for path in WORKFLOWS:
        assert yaml.safe_load(path.read_text())["env"]["RUST"].startswith(f"{RUST}.")
    for text in (DOCKERFILE.read_text(), *(path.read_text() for path in WORKFLOWS)):
        for version in re.findall(r"\brust:(\d+\.\d+)", text):
            assert version == RUST


def test_the_image_has_pinned_bases_and_another_user_than_root():
    text = DOCKERFILE.read_text()
    bases, stages = re.findall(r"^FROM (\S+)", text, re.M), re.findall(r"^FROM .* AS (\S+)$", text, re.M)
    for base in set(bases) - set(stages):
        assert re.fullmatch(r"[a-z]+:[\w.-]*\d[\w.-]*@sha256:[0-9a-f]{64}", base), base
    last = text.rpartition("\nFROM ")[2]
    assert int(re.search(r"^USER (\d+)$", last, re.M)[1]) > 0


def test_a_tree_of_another_version_is_not_released():
    checked = subprocess.run(
        (sys.executable, ROOT / "scripts/check-release", "v999.0.0"), capture_output=True, text=True
    )
    assert checked.returncode == 1
    assert "the tag is v999.0.0" in checked.stderr


def test_a_package_for_node_of_another_version_or_repository_is_not_released(tmp_path):
    files = (
        "scripts/check-release",
        "Cargo.toml",
        "CHANGELOG.md",
        "deploy/kubernetes/kustomization.yaml",
        "deploy/kubernetes/migrate/kustomization.yaml",
        "python/pyproject.toml",
        "node/package.json",
    )
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)

    def told() -> str:
        command = (sys.executable, tmp_path / "scripts/check-release", "v0.1.0")
        return subprocess.run(command, capture_output=True, text=True).stderr

    assert "node/package.json" not in told()
    path = tmp_path / "node/package.json"
    package = json.loads(path.read_text())
    path.write_text(json.dumps(package | {"version": "0.0.9"}))
    assert "version in node/package.json is 0.0.9, not " in told()
    path.write_text(json.dumps(package | {"repository": {"url": "git+https://git.example/another.git"}}))
    assert "repository.url in node/package.json is not git+" in told()
