"""Messages: an id with parameters, words from a catalogue, in any language; each id of the engine's has its words, and is used."""

import copy
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sentences import misfits, says

import tritontrace
from tritontrace.messages import LANGUAGE, Catalogue
from tritontrace.replay import wire
from tritontrace.results import Fault

PACKAGE = Path(tritontrace.__file__).parent
WORDS = Catalogue(
    {
        "set.race": "{who} stores to {names: and }",
        "set.tiles": "{count:one tile|{count:,} tiles}",
        "set.row": "{whole:all|part}",
    }
)


def test_a_sentence_is_made_of_its_parameters():
    message = WORDS.say("set.race", who=WORDS.say("set.tiles", count=1), names=["x", "y"])
    assert message == "one tile stores to x and y"
    assert says(message, "set.race", names=["x", "y"]) and says(message.parameters["who"], "set.tiles", count=1)
    assert [WORDS.say("set.tiles", count=count) for count in (1, 2048)] == ["one tile", "2,048 tiles"]
    assert [WORDS.say("set.row", whole=whole) for whole in (True, False)] == ["all", "part"]


@pytest.mark.parametrize(
    "id, parameters", [("set.rows", {}), ("set.tiles", {}), ("set.tiles", {"count": 1, "names": []})]
)
def test_an_id_without_words_and_other_parameters_are_refused(id, parameters):
    with pytest.raises(LookupError):
        WORDS.say(id, **parameters)


def test_a_message_travels_with_its_parameters_and_one_without_is_read():
    fault = Fault("race", WORDS.say("set.race", who=WORDS.say("set.tiles", count=2), names=["x"]))
    tree = json.loads(json.dumps(wire.to_tree(fault)))
    message = wire.from_tree(Fault, tree).sentence
    assert message == fault.sentence and says(message, "set.race", names=["x"])
    assert says(message.parameters["who"], "set.tiles", count=2)
    assert wire.from_tree(Fault, tree | {"sentence": "as text"}).sentence == "as text"
    assert copy.deepcopy(message).parameters == message.parameters


@pytest.mark.parametrize(
    "forged", [{}, {"text": 1, "id": "", "parameters": {}}, {"text": "", "id": "", "parameters": []}]
)
def test_what_is_no_message_is_refused(forged):
    with pytest.raises(wire.WireError):
        wire.from_tree(Fault, wire.to_tree(Fault("race", "")) | {"sentence": forged})


def test_another_language_is_another_folder(tmp_path):
    (tmp_path / "tritontrace").mkdir()
    (tmp_path / "tritontrace" / "trace.toml").write_text("program = 'PROGRAMA {index}'\n")
    asked = "from tritontrace.messages import say; print(say('trace.program', index=3), say('trace.several') != '', sep=',')"
    environment = {**os.environ, LANGUAGE: str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "PROGRAMA 3,True\n"


# ------------------------------------------------------------------------------------------------- the engine's catalogue


def test_each_sentence_is_said_and_with_its_parameters():
    files = [*PACKAGE.rglob("*.py")]
    assert misfits(Catalogue.read(PACKAGE / "catalogue").sentences, files) == []


@pytest.mark.parametrize(
    "code, misfit",
    [
        ("say('set.race', who=1, names=[]), say('set.tiles', count=2)", "set.row is said nowhere"),
        ("say('set.x'), f'set.{row}'", "set.x has no sentence"),
        ("say('set.row'), f'set.{row}'", "set.row has other parameters"),
    ],
)
def test_what_does_not_fit_is_listed(tmp_path, code, misfit):
    (tmp_path / "code.py").write_text(code)
    assert [each.rpartition(": ")[2] for each in misfits(WORDS.sentences, [tmp_path / "code.py"])] == [misfit]
