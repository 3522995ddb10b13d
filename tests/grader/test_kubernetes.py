"""Values for Zero to JupyterHub: they agree with the image and the hub's settings, and with the chart where there is one."""

import os
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import pytest
import yaml

import grader
from strides import lab

VALUES = yaml.safe_load((grader.ROOT / "grader" / "hub" / "kubernetes.yaml").read_text())
USER = VALUES["singleuser"]
IMAGE = Path("/course")  # where the Dockerfile puts the clone


def test_students_have_numbers_of_their_own_and_bear_their_names():
    (settings,) = VALUES["hub"]["extraConfig"].values()
    c = SimpleNamespace(KubeSpawner=SimpleNamespace())
    exec(compile(settings, "students.py", "exec"), {"c": c})
    ada, ben = (SimpleNamespace(user=SimpleNamespace(id=id, name=name)) for id, name in ((1, "ada"), (2, "ben")))
    assert c.KubeSpawner.uid(ada) != c.KubeSpawner.uid(ben)
    assert c.KubeSpawner.environment["HUB_STUDENT"](ben) == "ben"


def test_the_exchange_is_mounted_where_nbgrader_looks_for_it():
    (volume,), (mount,) = USER["storage"]["extraVolumes"], USER["storage"]["extraVolumeMounts"]
    assert volume["name"] == mount["name"] and mount["mountPath"] == USER["extraEnv"]["HUB_EXCHANGE"]


def test_the_image_has_what_the_values_name():
    assert f"WORKDIR {IMAGE}" in (grader.ROOT / "Dockerfile").read_text()
    folders = [Path(folder) for folder in USER["extraEnv"]["JUPYTER_CONFIG_PATH"].split(":")]
    assert [grader.ROOT / folder.relative_to(IMAGE) for folder in folders] == [
        grader.ROOT / "grader" / "hub",
        lab.SETTINGS,
    ]
    assert Path(USER["cmd"][0]).relative_to(IMAGE) == Path(".venv/bin/python")


def test_nobody_takes_all_and_what_is_idle_goes():
    assert USER["memory"]["limit"] == "2G" and 0 < USER["cpu"]["limit"] <= 2
    assert VALUES["cull"]["enabled"] and VALUES["cull"]["timeout"] <= 3600


@pytest.mark.skipif("Z2JH" not in os.environ, reason="Z2JH names no folder with the chart's values.yaml and its schema")
def test_the_chart_takes_them():
    chart = Path(os.environ.get("Z2JH", ""))
    schema = yaml.safe_load((chart / "values.schema.yaml").read_text())

    def merged(ours, more):  # as helm does
        return ours | {
            name: merged(ours[name], value) if isinstance(value, dict) and isinstance(ours.get(name), dict) else value
            for name, value in more.items()
        }

    jsonschema.validate(merged(yaml.safe_load((chart / "values.yaml").read_text()), VALUES), schema)
