"""The manifests in deploy/kubernetes: pods are restricted, secrets are references, the program takes the arguments."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.processes import ROOT, pillarbox

FOLDER = ROOT / "deploy" / "kubernetes"
KUSTOMIZATIONS = (FOLDER, FOLDER / "migrate")


def read(path: Path) -> list[dict]:
    return list(yaml.safe_load_all(path.read_text()))


def resources() -> list[dict]:
    files = [folder / name for folder in KUSTOMIZATIONS for name in kustomization(folder)["resources"]]
    return [resource for file in files for resource in read(file)]


def kustomization(folder: Path) -> dict:
    (document,) = read(folder / "kustomization.yaml")
    return document


def of_kind(kind: str) -> list[dict]:
    return [resource for resource in resources() if resource["kind"] == kind]


WORKLOADS = {kind: of_kind(kind)[0]["spec"]["template"] for kind in ("Deployment", "Job")}


def program(*arguments: str | Path, **variables: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PILLARBOX_")}
    ran = subprocess.run((pillarbox(), *arguments), env={**environment, **variables}, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.parametrize("folder", KUSTOMIZATIONS, ids=lambda folder: folder.name)
def test_every_file_is_in_its_kustomization(folder):
    files = {path.name for path in folder.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(kustomization(folder)["resources"]) == files
    version = program("--version").split()[1]
    assert [image["newTag"] for image in kustomization(folder)["images"]] == [version]


@pytest.mark.parametrize("template", WORKLOADS.values(), ids=WORKLOADS)
def test_pods_are_restricted(template):
    pod = template["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"]["memory"]


@pytest.mark.parametrize("template", WORKLOADS.values(), ids=WORKLOADS)
def test_the_database_url_is_in_a_secret(template):
    (container,) = template["spec"]["containers"]
    values = {variable["name"]: variable for variable in container["env"]}
    assert values["PILLARBOX_DATABASE_URL"]["valueFrom"]["secretKeyRef"]["key"] == "database-url"
    assert not any("://" in variable.get("value", "") for variable in container["env"])


@pytest.mark.parametrize("template", WORKLOADS.values(), ids=WORKLOADS)
def test_the_program_takes_the_arguments(template):
    (container,) = template["spec"]["containers"]
    program(*container["args"], "--help")


@pytest.mark.parametrize("template", WORKLOADS.values(), ids=WORKLOADS)
def test_a_policy_limits_the_traffic_of_every_pod(template):
    labels = template["metadata"]["labels"]
    selected = [policy["spec"] for policy in of_kind("NetworkPolicy")]
    (policy,) = [spec for spec in selected if spec["podSelector"]["matchLabels"].items() <= labels.items()]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert all("ports" in rule for rule in policy["egress"])


def test_relays_are_probed_where_they_serve():
    (container,) = WORKLOADS["Deployment"]["spec"]["containers"]
    paths = {name: container[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "liveness", "readiness")}
    assert paths == {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}
    listen = next(variable["value"] for variable in container["env"] if variable["name"] == "PILLARBOX_METRICS_LISTEN")
    assert container["ports"] == [{"name": "metrics", "containerPort": int(listen.rpartition(":")[2])}]


def test_the_configuration_discards_nothing(tmp_path):
    (generated,) = kustomization(FOLDER)["configMapGenerator"]
    config = FOLDER / generated["files"][0]
    checked = json.loads(program("check-config", "--json", "--config", config))
    assert checked["settings"]["destinations"] == {}
    assert checked["settings"]["relay"]["unrouted"] == "park"
    # With the receiver that the comments suggest, it is a configuration.
    suggested = tmp_path / "pillarbox.toml"
    lines = config.read_text().splitlines()
    suggested.write_text("\n".join(line[1:] if line.startswith("#") and line[1:2] != " " else line for line in lines))
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    checked = json.loads(program("check-config", "--json", "--config", suggested, RECEIVER_SECRET=secret))
    assert checked["settings"]["destinations"]["receiver"]["kind"] == "http"
    assert checked["remarks"] == []
