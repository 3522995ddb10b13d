"""Values cross process borders unchanged, and damage is a WireError and nothing else."""

import contextlib
import json
import math
import struct
import time

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tritontrace.messages import Message
from tritontrace.replay.wire import DTYPES, MAGIC, WireError, layout, pack, unpack, view

QUICK = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


def message(body, sizes=(), blobs=b""):
    """A message written by hand, with whatever its header claims."""
    header = json.dumps({"storages": list(sizes), "body": body}).encode()
    return MAGIC + struct.pack("<Q", len(header)) + header + blobs


def tensor(**fields):
    spec = {"dtype": "float32", "size": [2], "stride": [1], "offset": 0, "storage": 0} | fields
    return {"$tensor": spec}


# ------------------------------------------------------------------------------------------------ round trips


@pytest.mark.parametrize(
    "tree",
    [
        None,
        True,
        False,
        0,
        -(2**70),
        1.5,
        math.inf,
        "",
        "ä\n\ud800",
        [],
        {},
        {"a": [1, {"b": [None, [2.5]]}], "$": "x"},
    ],
    ids=repr,
)
def test_plain_values_come_back(tree):
    assert unpack(pack(tree)) == tree
    assert type(unpack(pack(tree))) is type(tree)


def test_nan_comes_back():
    assert math.isnan(unpack(pack(math.nan)))


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_comes_back_bit_by_bit(name):
    dtype = DTYPES[name]
    bits = torch.tensor([0, 1] * 40 if dtype == torch.bool else list(range(80)), dtype=torch.uint8)
    x = bits.view(dtype)
    back = unpack(pack(x))
    assert back.dtype == dtype and torch.equal(back.view(torch.uint8), bits)


BASE = torch.arange(60.0).reshape(6, 10)


@pytest.mark.parametrize(
    "x",
    [
        BASE.T,
        BASE[1:4, 3:9:2],
        BASE[3],
        BASE[:, :1].expand(6, 5),
        BASE[2, 3],
        BASE[:0],
        torch.empty(0),
        torch.empty(3, 0, 2),
        torch.nn.functional.pad(BASE, (1, 1))[:, 1:-1],
        BASE.bfloat16().T,
    ],
    ids=lambda x: f"{tuple(x.shape)} {x.stride()}",
)
def test_views_stay_views(x):
    back = unpack(pack({"x": [x]}))["x"][0]
    assert torch.equal(back, x)
    assert layout(back) == layout(x)
    assert back.untyped_storage().nbytes() == x.untyped_storage().nbytes()


def test_tensors_of_one_storage_still_share_it():
    x = torch.zeros(8)
    first, second, other = unpack(pack([x[:4], x[2:], torch.zeros(8)]))
    first.fill_(7)
    assert second[:2].tolist() == [7, 7] and second[2:].tolist() == [0] * 4
    assert other.tolist() == [0] * 8
    assert x.tolist() == [0] * 8  # and the sender's tensor is its own


def test_a_tensor_with_a_gradient_travels_without_it():
    assert not unpack(pack(torch.ones(3, requires_grad=True) * 2)).requires_grad


def containers(children):
    keys = st.text().filter(lambda key: key != "$tensor")
    return st.lists(children, max_size=4) | st.dictionaries(keys, children, max_size=4)


@QUICK
@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(), containers))
def test_any_tree_comes_back(tree):
    assert unpack(pack(tree)) == tree


@pytest.mark.parametrize(
    "value", [object(), {1: 2}, {1, 2}, np.float32(1), b"bytes", len, 1j, torch.float32], ids=lambda v: type(v).__name__
)
def test_what_is_not_plain_does_not_travel(value):
    with pytest.raises(TypeError, match="cannot travel"):
        pack({"x": [value]})


# ------------------------------------------------------------------------------------------------ damage


WHOLE = pack({"x": BASE[1:4, ::2], "n": [1, "two", None], "y": BASE.half()})


@pytest.mark.parametrize("length", [0, 4, 8, 12, 16, 17, 60, len(WHOLE) - 1])
def test_truncated(length):
    with pytest.raises(WireError):
        unpack(WHOLE[:length])


def test_a_sentence_travels_with_its_id_and_parameters():
    sentence = Message("x has 2 axes", "set.axes", {"tensor": Message("x", "set.tensor", {}), "axes": [2, 3]})
    (back,) = unpack(pack([sentence]))
    assert back.as_data() == sentence.as_data() and back.parameters["tensor"].id == "set.tensor"


@pytest.mark.parametrize("forged", [1, "text", {"text": "", "id": ""}, {"text": "", "id": 1, "parameters": {}}])
def test_what_is_no_sentence_is_refused(forged):
    with pytest.raises(WireError):
        unpack(message({"error": {"$message": forged}}))


def test_too_long():
    with pytest.raises(WireError, match="do not add up"):
        unpack(WHOLE + b"\0")


@QUICK
@given(st.data())
def test_a_changed_byte_is_data_or_a_wire_error(data):
    damaged = bytearray(WHOLE)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(WHOLE) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(WireError):
        unpack(bytes(damaged))


@QUICK
@given(st.binary(max_size=200))
def test_noise_is_a_wire_error(noise):
    for text in (noise, MAGIC + noise, MAGIC + struct.pack("<Q", len(noise)) + noise):
        with pytest.raises(WireError):
            unpack(text)


@pytest.mark.parametrize(
    "header",
    [
        "[]",
        "3",
        "{}",
        '{"storages": []}',
        '{"body": 1}',
        '{"storages": 3, "body": 1}',
        '{"storages": [-4], "body": 1}',
        '{"storages": [4.0], "body": 1}',
        '{"storages": [true], "body": 1}',
        '{"storages": [4611686018427387904], "body": 1}',
        '{"storages": [1, 1], "body": 1}',
        '{"storages": [], "body": ' + "9" * 5000 + "}",
        "[" * 100_000,
        '{"storages": [], "body": ' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"storages": [], "body": ' + "[" * 900 + "]" * 900 + "}",
    ],
    ids=lambda header: header[:44],
)
def test_headers_that_lie(header):
    text = header.encode()
    with pytest.raises(WireError):
        unpack(MAGIC + struct.pack("<Q", len(text)) + text)


@pytest.mark.parametrize("length", [0, 5, 2**31, 2**63, 2**64 - 1])
def test_a_length_that_lies(length):
    with pytest.raises(WireError):
        unpack(MAGIC + struct.pack("<Q", length) + b'{"storages": [], "body": 1}')


HOSTILE = [
    {"dtype": "float31"},
    {"dtype": None},
    {"dtype": ["float32"]},
    {"dtype": "torch.float32"},
    {"size": [-1]},
    {"size": [3]},
    {"size": [2.0]},
    {"size": [True]},
    {"size": 2},
    {"size": None},
    {"size": [2, 2]},
    {"size": [2**61]},
    {"size": [2**62]},
    {"size": [2**61, 2**61], "stride": [0, 0]},
    {"size": [2**61, 2**61, 0], "stride": [1, 1, 1]},
    {"stride": [-1]},
    {"stride": [2]},
    {"stride": [2**61]},
    {"stride": ["1"]},
    {"offset": -1},
    {"offset": 1},
    {"offset": 2**61},
    {"offset": None},
    {"storage": 1},
    {"storage": -1},
    {"storage": "0"},
    {"storage": True},
    {"storage": None},
]


@pytest.mark.parametrize("fields", HOSTILE, ids=str)
def test_tensors_that_do_not_fit_their_storage(fields):
    assert unpack(message(tensor(), [8], bytes(8))).tolist() == [0, 0]
    with pytest.raises(WireError):
        unpack(message(tensor(**fields), [8], bytes(8)))


@pytest.mark.parametrize("spec", [None, 3, "x", [], {}], ids=repr)
def test_a_tensor_that_is_none(spec):
    with pytest.raises(WireError):
        unpack(message({"$tensor": spec}, [8], bytes(8)))


numbers = st.integers(-(2**64), 2**64) | st.integers(-2, 12)


@QUICK
@given(st.lists(numbers, max_size=4), st.lists(numbers, max_size=4), numbers, st.sampled_from(sorted(DTYPES)))
def test_no_view_leaves_its_storage(size, stride, offset, dtype):
    storage = torch.zeros(64, dtype=torch.uint8).untyped_storage()
    try:
        x = view(storage, {"dtype": dtype, "size": size, "stride": stride, "offset": offset})
    except WireError:
        return
    reach = offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) + 1 if all(size) else 0
    assert 0 <= reach * x.element_size() <= 64 == storage.nbytes()


# ------------------------------------------------------------------------------------------ what costs its reader

COSTLY = {  # of a few bytes, or of none that a limit on bytes would mind
    "a million empty storages": lambda: message(1, [0] * 1_000_000),
    "a million and one lists": lambda: message([[]] * 1_000_001),
    "a million and one dicts": lambda: message([{}] * 1_000_001),
    "a header of 17 MiB": lambda: message("x" * (17 << 20)),
    "one number as 2**28": lambda: message(tensor(size=[1 << 28], stride=[0]), [4], bytes(4)),
    "a square of one number": lambda: message(tensor(size=[1 << 14, 1 << 14], stride=[0, 0]), [4], bytes(4)),
    "one number as 2**61": lambda: message(tensor(size=[1 << 61], stride=[0]), [4], bytes(4)),
    "windows over one row": lambda: message(tensor(size=[9000, 9000], stride=[1, 1]), [80_000], bytes(80_000)),
    "many of the largest": lambda: message([tensor(size=[1 << 25], stride=[0])] * 5, [4], bytes(4)),
}


@pytest.mark.parametrize("name", COSTLY)
def test_what_would_cost_its_reader_is_refused_before_it_does(name):
    sent = COSTLY[name]()
    started = time.process_time()
    with pytest.raises(WireError):
        unpack(sent)
    assert time.process_time() - started < 1


def test_what_an_honest_message_has_many_times_over_is_read():
    spread = tensor(size=[1 << 20], stride=[0])
    found = unpack(message([[[k] for k in range(300_000)], spread], [4] + [0] * 5_000, bytes(4)))
    assert len(found[0]) == 300_000 and found[1].shape == (1 << 20,)
