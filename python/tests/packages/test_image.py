"""The context of the image: all that the Dockerfile copies and cargo reads, and nothing private."""

from __future__ import annotations

import re
import shutil
import subprocess
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest

from tests.processes import ROOT

DOCKERFILE = ROOT / "deploy" / "Dockerfile"
PRIVATE = re.compile(
    r"(^|/)(\.git|\.tests|\.tools|\.venv[^/]*|node_modules|target|id_[a-z0-9]+)(/|$)|\.(env|key|pem|p12|db|log)$|\.env\."
)


def script():
    loader = SourceFileLoader("image_context", str(ROOT / "scripts/image-context"))
    module = module_from_spec(spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("image") / "context"
    subprocess.run((ROOT / "scripts/image-context", folder), check=True, capture_output=True)
    return folder


def files(context: Path) -> set[str]:
    return {path.relative_to(context).as_posix() for path in context.rglob("*") if not path.is_dir()}


def test_what_the_dockerfile_copies_is_there(context):
    lines = re.findall(r"^COPY (?!--from).*$", DOCKERFILE.read_text(), re.M)
    copied = [source for line in lines for source in line.split()[1:-1]]
    assert copied
    for source in copied:
        assert (context / source).exists(), source


def test_cargo_reads_the_workspace_of_the_context(context):
    command = ("cargo", "metadata", "--locked", "--offline", "--no-deps", "--format-version", "1")
    subprocess.run(command, cwd=context, check=True, capture_output=True)


def test_the_crates_are_whole_and_links_stay_inside(context):
    tracked = subprocess.run(("git", "ls-files", "crates"), cwd=ROOT, check=True, capture_output=True, text=True)
    # A deleted file stays tracked until the next commit.
    expected = {path for path in tracked.stdout.splitlines() if (ROOT / path).exists()}
    assert expected <= files(context)
    for path in files(context):
        assert (context / path).resolve(strict=True).is_relative_to(context.resolve()), path


def test_nothing_private_and_nothing_ignored_is_sent(context):
    sent = files(context)
    assert not [path for path in sent if PRIVATE.search(path)]
    ignored = subprocess.run(
        ("git", "check-ignore", "--stdin"), cwd=ROOT, input="\n".join(sent), capture_output=True, text=True
    )
    assert (ignored.returncode, ignored.stdout) == (1, "")
    assert sum((context / path).lstat().st_size for path in sent) < 10_000_000


def test_rules_leave_out_private_files_wherever_they_are(tmp_path):
    shutil.copy(ROOT / ".dockerignore", tmp_path)
    kept = ["Cargo.toml", "crates/one/src/lib.rs", "examples/one.rs"]
    left_out = [
        ".env",
        ".git/config",
        "crates/one/outbox.db",
        "crates/one/target/debug/one",
        "deploy/key.pem",
        "examples/outside/src/main.rs",
        "target/release/pillarbox",
    ]
    for path in (*kept, *left_out):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    assert script().context(tmp_path) == kept
