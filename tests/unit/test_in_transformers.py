"""The course's attention in models of transformers: the numbers are those under torch's sdpa, and each trap shows."""

import os
from functools import cache
from importlib.metadata import PackageNotFoundError

import pytest
import torch

from course_lib import trace
from course_lib.workloads import in_transformers, shared_heads
from course_lib.workloads.in_transformers import MODELS, compared, random_model, register
from grader.published import published
from tritontrace.threads import one_thread

MISTRAL = "Mistral, a window of 12"


@cache
def course():
    attention = shared_heads.forward(published("flash.flash_attention_forward"))
    names = ("flash_backward.delta", "flash_backward.dq", "training.grouped_backward")
    return shared_heads.differentiable(attention, shared_heads.backward(*map(published, names)))


@cache
def attention_for():
    return published("serving.attention_for")


@pytest.mark.parametrize("found", ["", "4.57.1", "5.9.0"])
def test_without_the_library_or_with_an_old_one_there_is_one_sentence(found, monkeypatch):
    def version(name):
        if not found:
            raise PackageNotFoundError
        return found

    monkeypatch.setattr(in_transformers, "version", version)
    said = in_transformers.report(None, None)
    assert said == in_transformers.missing() and "\n" not in said
    assert "pip install 'transformers>=5.24'" in said and found in said


def test_the_version_that_is_pinned_is_new_enough():
    assert in_transformers.missing() == ""


@pytest.mark.slow
@pytest.mark.parametrize("padded", [False, True], ids=["of one length", "padded"])
@pytest.mark.parametrize("model", MODELS)
def test_logits_gradients_and_tokens_are_sdpas(model, padded):
    register("course", attention_for(), course())
    found = compared(model, "course", padded)
    assert found.logits < 2e-6 and found.gradients < 2e-7 and found.tokens


@pytest.mark.slow
def test_plain_training_is_on_kernels_both_ways():
    register("course", attention_for(), course())
    model = random_model("Llama, 4 heads for 1", "course")
    with trace() as t, one_thread():
        ids = torch.arange(20)[None]
        model(ids, labels=ids).loss.backward()
    assert len(t.launches) == 4 * model.config.num_hidden_layers, "o and lse; delta; dq; dk and dv"


@pytest.mark.slow
def test_a_forgotten_mask_shows_in_padded_texts_alone():
    register("forgetful", attention_for(), course(), masks=False)
    assert compared("Llama", "forgetful", False).logits < 2e-6
    assert compared("Llama", "forgetful", True).logits > 0.1


def window_ignored(*given, sliding_window=None, **more):
    return attention_for()(*given, **more)


def window_one_wider(*given, sliding_window=None, **more):
    return attention_for()(*given, sliding_window=sliding_window and sliding_window + 1, **more)


def scale_doubled(*given, scaling=None, **more):
    return attention_for()(*given, scaling=2 * scaling, **more)


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [window_ignored, window_one_wider, scale_doubled])
def test_what_is_wrong_shows(wrong):
    register("wrong", wrong, course())
    assert compared(MISTRAL, "wrong", False, tokens=1).logits > 1e-3


def logits(model, ids, pieces, cache):
    """The logits of a text that comes in pieces."""
    with trace(), one_thread(), torch.no_grad():
        found = [model(piece, cache=cache, use_cache=True).logits for piece in ids.split(pieces, 1)]
    return torch.cat(found, 1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["DynamicCache", "StaticCache"])
@pytest.mark.parametrize("model", ["Llama", MISTRAL])
def test_pieces_and_both_caches_give_the_logits_of_the_whole(model, kind):
    """A prompt, a second piece, one token: queries are the last of the keys, or stand in front of empty places."""
    import transformers

    register("course", attention_for(), course())
    ids = torch.randint(1, 64, (2, 27), generator=torch.Generator().manual_seed(2))
    right = random_model(model)(ids, use_cache=False).logits
    own = random_model(model, "course")
    more = {"max_cache_len": 40} if kind == "StaticCache" else {}
    found = logits(own, ids, [16, 10, 1], getattr(transformers, kind)(config=own.config, **more))
    torch.testing.assert_close(found, right, rtol=0, atol=2e-6)


@pytest.mark.parametrize("asked", ["dropout", "softcap", "position_bias", "s_aux"])
def test_what_the_kernels_cannot_do_is_refused(asked):
    of_layer = in_transformers.in_layers(attention_for(), course())
    q = torch.randn(1, 2, 4, 16)
    with pytest.raises(NotImplementedError, match=asked):
        of_layer(None, q, q, q, None, **{asked: 0.5})


@pytest.mark.slow
def test_the_report_has_a_line_for_each_model_and_none_of_unwritten_functions(capfd):
    lines = in_transformers.report(attention_for(), course()).splitlines()
    assert len(lines) == 2 + 2 * len(MODELS) and all("the same" in line for line in lines[1:-1])
    assert in_transformers.report(lambda *given, **more: None, course()).startswith("attention_for gives nothing yet")
    said = in_transformers.report(lambda *given, **more: 1 / 0, course())
    assert said.endswith("Llama: ZeroDivisionError: division by zero. What does its check say?"), "no stack trace"
    assert capfd.readouterr() == ("", ""), "the library says nothing"
    assert os.environ["HF_HUB_OFFLINE"] == "1", "and asks nobody"
