"""The hosted CI runs each folder of tests in one job, and only targets that make.py has; files for services are of their schemas."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = {
    path.stem: yaml.safe_load(path.read_text("utf-8")) for path in (ROOT / ".github" / "workflows").glob("*.yml")
}


def test_each_folder_of_tests_belongs_to_one_job():
    parts = WORKFLOWS["test"]["jobs"]["tests"]["strategy"]["matrix"]["part"]
    named = [folder for part in parts for folder in part["folders"].split()]
    have = {str(path.parent.relative_to(ROOT)) for path in (ROOT / "tests").glob("*/test_*.py")} - {
        "tests/browser",
        "tests/gpu",
    }
    assert sorted(named) == sorted(have | {"tritontrace/tests"})


def test_each_target_exists():
    targets = re.findall(r'^        "([\w-]+)": ', (ROOT / "make.py").read_text("utf-8"), re.M)
    asked = {
        target
        for workflow in WORKFLOWS.values()
        for job in workflow["jobs"].values()
        for target in job.get("strategy", {}).get("matrix", {}).get("target", [])
    }
    assert asked and asked <= set(targets)


SCHEMAS = {
    **{f".github/workflows/{name}.yml": "github-workflows" for name in WORKFLOWS},
    "CITATION.cff": "citation-file-format",
    "compose.yaml": "compose-spec",
}


def problems(data: Any, schema: str) -> list[str]:
    """The places in a file's data that a schema of check-jsonschema refuses."""
    pytest.importorskip("check_jsonschema")
    read = files("check_jsonschema").joinpath("builtin_schemas", "vendor", f"{schema}.json").read_text("utf-8")
    return [error.json_path for error in jsonschema.Draft7Validator(json.loads(read)).iter_errors(data)]


def loaded(path: str) -> dict[Any, Any]:
    """The data of a YAML file; `on` is a key there, and no truth value."""
    data = yaml.safe_load((ROOT / path).read_text("utf-8"))
    return {"on" if key is True else key: value for key, value in data.items()}


@pytest.mark.parametrize("path", SCHEMAS)
def test_files_for_services_are_of_their_schemas(path):
    assert problems(loaded(path), SCHEMAS[path]) == []


def test_the_schemas_notice():
    workflow, citation = loaded(".github/workflows/release.yml"), loaded("CITATION.cff")
    workflow["jobs"]["build"]["runs_on"] = workflow["jobs"]["build"].pop("runs-on")
    assert problems(workflow, "github-workflows") and problems(citation | {"authors": []}, "citation-file-format")


def test_containers_are_built_as_the_image_is():
    """Both services and the devcontainer pass what the Dockerfile asks for. Work lies in the services' volume, and in the clone that
    the devcontainer mounts, beside the image's .venv."""
    dockerfile = (ROOT / "Dockerfile").read_text("utf-8")
    folder, port = (re.search(rf"^{word} (\S+)$", dockerfile, re.M)[1] for word in ("WORKDIR", "EXPOSE"))
    services = loaded("compose.yaml")["services"]
    builds = {name: service["build"]["args"]["TORCH"] for name, service in services.items()}
    assert builds == {"lab": "cpu", "gpu": "cuda"} and "ARG TORCH=" in dockerfile
    for service in services.values():
        assert service["volumes"] == [f"work:{folder}/work"] and service["ports"] == [f"127.0.0.1:{port}:{port}"]
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text("utf-8"))
    assert (ROOT / ".devcontainer" / container["build"]["dockerfile"]).resolve() == ROOT / "Dockerfile"
    assert f"USER {container['remoteUser']}" in dockerfile and container["workspaceFolder"] == folder
    assert container["mounts"] == [f"type=volume,target={folder}/.venv"] and "\nVOLUME" not in dockerfile


def test_what_publishes_waits_for_the_build_and_may_do_nothing_else():
    release = loaded(".github/workflows/release.yml")
    assert release["on"] == {"push": {"tags": ["v*"]}} and release["permissions"] == {"contents": "read"}
    publishing = {name: job for name, job in release["jobs"].items() if name != "build"}
    assert {name: (job["needs"], job["permissions"]) for name, job in publishing.items()} == {
        "pypi": ("build", {"id-token": "write"}),
        "github": ("build", {"contents": "write"}),
    }
    assert "v*" in loaded(".github/workflows/site.yml")["on"]["push"]["tags"]
