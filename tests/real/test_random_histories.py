"""Histories that hack/differential makes and shrinks; no server is asked."""

import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest

from kubeskew.apimachinery.catalogue.table import Catalogue
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.scheduler.allocator.cases import run_case

sys.path.append(str(Path(__file__).parents[2] / "hack" / "differential"))

from allocations import Problems, normal
from comparison import Difference, is_of_values
from histories import history
from objects import Objects, places
from planted import errors_of
from shrinking import shrunk


@pytest.fixture(scope="module")
def objects() -> Objects:
    version = Version.parse("1.36")
    return Objects(Catalogue(version, FeatureGates(version)))


def test_a_seed_makes_one_history(objects: Objects):
    """A seed makes the same requests each time, and other seeds make others."""
    texts = [json.dumps(history(objects, seed)) for seed in range(40)]
    assert texts == [json.dumps(history(objects, seed)) for seed in range(40)]
    assert len(set(texts)) == len(texts)


def test_every_value_of_a_sound_object_has_a_schema(objects: Objects):
    """The file has a sound object of every kind that can be updated, without unknown fields."""
    for resource, each in objects.sound:
        known = {place.path for place in places(each, resource.schema)}
        unknown = {f"{resource.kind}: {key}" for key in each if (key,) not in known}
        assert not unknown
    kinds = {resource.plural for resource, _ in objects.sound}
    version = Version.parse("1.36")
    table = Catalogue(version, FeatureGates(version))
    served = {
        each.plural
        for group, versions in table.groups()
        for name in versions
        for each in table.resources(group, name)
        if "update" in each.verbs
    }
    assert served - kinds == set()


def test_a_change_leaves_the_sound_object_alone(objects: Objects):
    """A changed object is a copy, and most changes change something."""
    chance, changed = random.Random(1), 0
    for resource, each in objects.sound * 3:
        before = json.dumps(each)
        changed += objects.changed(chance, resource.schema, each, 2) != each
        assert json.dumps(each) == before
    assert changed > len(objects.sound) * 2


async def test_what_does_not_matter_is_left_out():
    """A history shrinks to the steps and the parts of bodies without which it would not come out apart."""
    steps = [{"method": "GET", "path": f"/{number}"} for number in range(9)]
    steps[4] = {"method": "PUT", "path": "/a?x=1&y=2", "body": {"kind": "K", "spec": {"a": [1, 2], "b": 3}}}

    async def holds(sequence: dict[str, Any]) -> bool:
        found = [step for step in sequence["steps"] if step.get("body", {}).get("spec", {}).get("b") == 3]
        return bool(found) and "y=2" in found[0]["path"] and sequence["steps"][-1]["path"] == "/8"

    small = await shrunk({"steps": steps}, 8, holds)
    assert small["steps"] == [
        {"method": "PUT", "path": "/a?y=2", "body": {"kind": "K", "spec": {"b": 3}}},
        {"method": "GET", "path": "/8"},
    ]


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("message: expected 'a 1', got 'b 2'", "message: expected 'c 3', got 'd 4'", True),
        ("items[0].name: expected 'a', got 'b'", "items[3].name: expected 'x', got 'y'", True),
        ("status: expected 200, got 422", "body.kind: expected 'Pod', got 'Status'", False),
    ],
)
def test_a_class_has_no_names_and_numbers(one: str, other: str, alike: bool):
    """Differences fall into one class if they differ in names, numbers and indices alone."""
    sequence = {"steps": [{"method": "POST", "path": "/api/v1/namespaces/${run}/pods?dryRun=All"}]}
    kinds = [Difference(0, [text]).kind(sequence) for text in (one, other)]
    assert (kinds[0] == kinds[1]) is alike
    assert kinds[0].startswith("POST v1/pods dryRun ") or kinds[0].startswith("POST /v1/pods dryRun ")


@pytest.mark.parametrize(
    ("real", "ours", "expected"),
    [
        ('Invalid value: []string{"a"}: no', 'Invalid value: ["a"]: no', True),
        ("Invalid value: core.X{A:(*int)(0x1)}: no", 'Invalid value: {"A":1}: no', True),
        ("Forbidden: no\\n- a", "Forbidden: no\\n- b", True),
        ('Invalid value: []string{"a"}: no', 'Invalid value: ["a"]: never', False),
        ("Invalid value: -a: no", 'Invalid value: "-a": no', False),
        ("Required value", "Invalid value: null: no", False),
    ],
)
def test_messages_that_differ_in_how_values_are_written(real: str, ours: str, expected: bool):
    """Messages are alike but for values only if the rest of them is the same."""
    text = f"body.details.causes[0].message: expected {real!r}, got {ours!r}".replace("\\\\n", "\\n")
    assert is_of_values(text) is expected
    assert not is_of_values("status: expected 422, got 500")


def test_a_problem_of_allocation_has_answers():
    """Random problems are those of `kubeskew allocate`, and all kinds of answers come."""
    found = []
    for seed in range(60):
        problem = Problems(seed).problem(f"seed-{seed}", "1.36.3")
        assert problem == Problems(seed).problem(f"seed-{seed}", "1.36.3")
        found.append(normal(run_case(problem, lambda: "share")))
    assert any(answer["allocations"] for answer in found)
    assert any("error" in answer for answer in found)
    assert any(answer == {"allocations": None} for answer in found)


def test_an_answer_has_no_order_of_results():
    """Answers that differ in share ids and in the order of results are alike."""
    results = [{"device": name, "shareID": f"share-{name}"} for name in ("a", "b")]
    answers = [{"allocations": [{"devices": {"results": each}}]} for each in (results, results[::-1])]
    assert normal(answers[0]) == normal(json.loads(json.dumps(answers[1]).replace("share-", "other-")))


def test_errors_to_plant(tmp_path: Path):
    """Errors are changes of single places on the lines that are named, and the rest stays as it is."""
    module = tmp_path / "rules.py"
    module.write_text(
        "LIMIT = 3\n\n\ndef rules(value, most):\n    if value > most and value != 2:\n        yield 1\n"
        "    fill(value, name='a')\n"
    )
    made = [*errors_of(module, frozenset({5, 6, 7}))]
    assert {(error.line, error.kind, error.new) for error in made} == {
        (5, "a condition turned around", "not (value > most and value != 2)"),
        (5, "an operand less", "(value > most)"),
        (5, "another comparison", "(value >= most)"),
        (5, "another comparison", "(value == 2)"),
        (5, "another value", "3"),
        (6, "a rule that is missing", "yield from ()"),
        (6, "another value", "2"),
        (7, "a call that is missing", "pass"),
        (7, "another value", "'ax'"),
    }
    for error in made:
        compile(error.text, "rules.py", "exec")
        assert error.text.startswith("LIMIT = 3\n")
        assert len(error.text.splitlines()) == 7
