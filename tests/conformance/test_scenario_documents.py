"""docs/scenarios.md: its examples are what the files may have, and none is missing."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubeskew.conformance import grammar
from kubeskew.conformance.grammar import OPERATIONS, check_body, check_keys

TEXT = (Path(__file__).parents[2] / "docs/scenarios.md").read_text()


def example(before: str) -> Any:
    """The indented block behind a text, as YAML; `…` stands for what is left out."""
    block = re.match(r"\n+((?:(?: {4}.*)?\n)+)", TEXT[TEXT.index(before) + len(before) :])
    assert block
    return yaml.safe_load(block[1].replace("{…}", "{}").replace("[…]", "[]"))


def test_every_operation_has_an_example():
    """Each operation of the grammar is shown with keys that it may have."""
    shown = [entry for entry in example("An example of each:") if entry]

    for entry in shown:
        ((kind, body),) = entry.items()
        check_body(kind, body, kind)
    assert {kind for entry in shown for kind in entry} == set(OPERATIONS)


# A mark names the cells and the reason, a known bug that says both, or a finding that says why.
OF_CELLS = ("when", "steps", "found", "reason", "source")
OF_BUGS = ("steps", "found", "bug", "at")
OF_FINDINGS = ("when", "steps", "found", "finding")


@pytest.mark.parametrize(
    ("before", "path", "keys"),
    [
        ("## The header", ["spec"], grammar.HEADER_KEYS),
        ("### expectedFailures", ["expectedFailures", 0], OF_CELLS),
        ("failure are run, each with its own verdict.", ["expectedFailures", 0], OF_BUGS),
        (
            "and is about failures that match both the entry and its own `found`:",
            ["expectedFailures", 0],
            OF_FINDINGS,
        ),
        ("### notRun", ["notRun", 0], grammar.EXEMPTION_KEYS),
        ("## Steps", ["spec"], grammar.TEST_KEYS),
        ("## Steps", ["spec", "steps", 1], grammar.REPEAT_KEYS),
        ("without `cells` all of theirs are meant.", [], grammar.PROFILE_KEYS),
    ],
)
def test_every_key_is_shown(before: str, path: list[Any], keys: tuple[str, ...]):
    """The examples have every key of the header, of marks, of a test, of a repetition and of a profile."""
    value = example(before)
    for part in path:
        value = value[part]

    assert set(check_keys(value, keys, before)) == set(keys)


def test_a_mark_has_no_other_keys():
    """The three forms of marks have all keys between them."""
    assert {*OF_CELLS, *OF_BUGS, *OF_FINDINGS} == set(grammar.EXPECTED_FAILURE_KEYS)


def test_every_key_of_a_step_is_shown():
    """The example of a step lacks only `description`, which every operation may have, too."""
    [step, _] = example("## Steps")["spec"]["steps"]

    assert {*check_keys(step, grammar.STEP_KEYS, "step"), "description"} == set(grammar.STEP_KEYS)
