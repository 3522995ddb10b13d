"""A trace as JSON: it has the schema, and every view of counts of what is read back is that of the trace itself."""

import json
from pathlib import Path

import jsonschema
import pytest
import torch
import triton
import triton.language as tl
from sentences import refusing

from tritontrace import as_data, from_data, trace
from tritontrace.cli import main
from tritontrace.results import Flops
from tritontrace.testing import (
    assert_bytes_at_most,
    assert_efficiency_at_least,
    assert_launches_at_most,
    assert_no_faults,
    assert_no_races,
)
from tritontrace.tracing import report, schema

PAGE = Path(__file__).resolve().parents[2] / "docs" / "schema.md"


@triton.jit
def exponential(x):
    return tl.exp(x)


@triton.jit
def strided(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o_ptr + i, exponential(tl.load(x_ptr + 2 * i, mask=i < n)), mask=i < n)


@triton.jit
def all_to_one(x_ptr, o_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(o_ptr + i, tl.load(x_ptr + tl.program_id(0) * BLOCK + i))
    tl.atomic_add(o_ptr, 1.0)


@triton.jit
def the_same_by_all(o_ptr):
    tl.store(o_ptr, 7.0)


@pytest.fixture(scope="module")
def found():
    x = torch.randn(256)
    with trace() as t:
        strided[(4,)](x, torch.empty(100), 100, BLOCK=32)
        all_to_one[(2,)](x, torch.empty(32), BLOCK=32)
        the_same_by_all[(2,)](torch.empty(1))
    return t


@pytest.fixture(scope="module")
def back(found):
    return from_data(json.loads(json.dumps(as_data(found))))


def test_it_has_the_schema(found):
    jsonschema.Draft202012Validator.check_schema(schema())
    data = json.loads(json.dumps(as_data(found)))
    assert found.faults and data["masked_without_other"], "each part of the schema should be there to be looked at"
    jsonschema.validate(data, schema(), cls=jsonschema.Draft202012Validator)
    del data["launches"][0]["sectors"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, schema(), cls=jsonschema.Draft202012Validator)


def test_a_script_has_the_schema(tmp_path, capfd):
    (tmp_path / "nothing.py").write_text(
        "import torch, triton\n@triton.jit\ndef f(x):\n    pass\nf[(1,)](torch.ones(1))\n"
    )
    assert main(["--format", "json", str(tmp_path / "nothing.py")]) == 0
    jsonschema.validate(json.loads(capfd.readouterr().out), schema(), cls=jsonschema.Draft202012Validator)


def test_every_view_of_counts_is_made_of_the_data(found, back):
    assert found.notes and as_data(back) == as_data(found) and as_data(found)["kernels"]["strided"]["helpers"]
    assert back.table() == found.table() and back._repr_html_() == found._repr_html_()
    assert back.source() == found.source() and back.source().html == found.source().html
    assert report.table(back) == report.table(found)
    assert report.page(back, "A page") == report.page(found, "A page")


@pytest.mark.parametrize(
    "assertion",
    [
        assert_no_faults,
        assert_no_races,
        lambda t: assert_bytes_at_most(t, 10),
        lambda t: assert_efficiency_at_least(t, 0.99),
        lambda t: assert_launches_at_most(t, 1),
    ],
)
def test_assertions_say_the_same_of_it(found, back, assertion):
    said = []
    for each in (found, back):
        with pytest.raises(AssertionError) as error:
            assertion(each)
        said.append(str(error.value))
    assert said[0] == said[1]


def test_data_without_lines_of_flops_are_read(found):
    """An older version has written them: the launch's are all that is known."""
    data = as_data(found)
    for launch in data["launches"]:
        del launch["line_flops"], launch["simulated"]
    assert from_data(data).launches[0].flops == found.launches[0].flops != Flops()


def test_another_schema_is_refused(found):
    with refusing("asked.trace.schema", schema="0"):
        from_data(as_data(found) | {"schema": 0})


def test_the_page_names_all():
    text = PAGE.read_text("utf-8")
    whole = schema()
    parts = [whole, *whole["$defs"].values()]
    assert [name for part in parts for name in part["properties"] if f"`{name}`" not in text] == []
    named = [value for part in parts for each in part["properties"].values() for value in each.get("enum", ())]
    assert "undefined" in named and [name for name in named if name and f'"{name}"' not in text] == []
