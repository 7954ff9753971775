"""Node selectors: what they select, and what is wrong with those that the API server lets pass."""

import pytest

from kubeskew.apimachinery.selectors.nodes import selector_matches
from kubeskew.scheduler.framework.node_selector_errors import (
    preference_fault,
    selector_fault,
    selector_text,
)

_PATH = "nodeSelectorTerms[0].matchExpressions[0]"
_NO_INTEGER = "for 'Gt', 'Lt' operators, the value must be an integer"
_ALL, _SOME = '"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"', '"In", "NotIn"'
_FIELD = "nodeSelectorTerms[2].matchFields[0]"


def _selector(operator, *values, key="cpus", kind="matchExpressions"):
    return {"nodeSelectorTerms": [{kind: [{"key": key, "operator": operator, "values": [*values]}]}]}


@pytest.mark.parametrize(
    ("label", "operator", "limit", "expected"),
    [
        ("5", "Gt", "4", True),
        ("5", "Lt", "+6", False),
        ("007", "Gt", "6", True),
        ("1_0", "Gt", "4", False),
        ("\u0665", "Gt", "4", False),
        (" 5", "Gt", "4", False),
        ("5", "Gt", "4.5", False),
        (str(2**63), "Gt", "4", False),
    ],
)
def test_numbers(label, operator, limit, expected):
    """Are read as Go reads them; a limit has to be a value that a label can have."""
    assert selector_matches(_selector(operator, limit), {"cpus": label}, "n") is expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (_selector("In", "4", "5"), True),
        (_selector("In", "5", "-1"), False),
        (_selector("NotIn", "4"), True),
        (_selector("NotIn", "-1"), False),
        (_selector("In", "n", key="metadata.name", kind="matchFields"), True),
    ],
)
def test_values_that_no_label_can_have(selector, expected):
    """A term with such a value cannot be read and matches no node, regardless of its other values."""
    assert selector_matches(selector, {"cpus": "5"}, "n") is expected


def test_a_term_that_cannot_be_read_leaves_the_others():
    """Of several terms those that can be read count."""
    terms = [*_selector("In", "-1")["nodeSelectorTerms"], *_selector("In", "5")["nodeSelectorTerms"]]

    assert selector_matches({"nodeSelectorTerms": terms}, {"cpus": "5"}, "n")


@pytest.mark.parametrize(
    ("selector", "fault"),
    [
        (_selector("Gt", "4"), ""),
        (_selector("Exists"), ""),
        (
            _selector("Gt", "many"),
            f'{_PATH}.values[0]: Invalid value: "many": {_NO_INTEGER}',
        ),
        (
            _selector("Lt"),
            f"{_PATH}.values: Invalid value: []: for 'Gt', 'Lt' operators, exactly one value is required",
        ),
        (
            _selector("In"),
            f"{_PATH}.values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty",
        ),
        (
            _selector("Exists", "x"),
            f'{_PATH}.values: Invalid value: ["x"]: values set must be empty for exists and does not exist',
        ),
        (
            _selector("Near"),
            f'{_PATH}.operator: Unsupported value: "Near": supported values: {_ALL}',
        ),
        (
            _selector("In", "n", "m", kind="matchFields"),
            'nodeSelectorTerms[0].matchFields[0].values: Invalid value: ["n","m"]: must have one element',
        ),
        (
            {"nodeSelectorTerms": [*_selector("Gt", "a")["nodeSelectorTerms"], {}, {"matchFields": [{}]}]},
            (
                f'[{_PATH}.values[0]: Invalid value: "a": {_NO_INTEGER}, '
                f'{_FIELD}.operator: Unsupported value: "": supported values: {_SOME}]'
            ),
        ),
    ],
)
def test_faults(selector, fault):
    """All of them, in upstream's words."""
    assert selector_fault(selector) == fault


def test_faults_of_names_and_values():
    """A key or value that no label can have; preferred terms without weight are not read."""
    (term,) = _selector("In", "a b", key="a/b/c")["nodeSelectorTerms"]
    fault = preference_fault([{"weight": 1, "preference": term}])

    assert fault.startswith('[[0].matchExpressions[0].key: Invalid value: "a/b/c": a valid label key must')
    assert ', [0].matchExpressions[0].values[0][a/b/c]: Invalid value: "a b": a valid label must' in fault
    assert preference_fault([{"weight": 0, "preference": term}]) == ""


def test_text():
    """A node selector is printed as upstream's generated Go code prints it."""
    assert selector_text(_selector("Gt", "1", "2")) == (
        "&NodeSelector{NodeSelectorTerms:[]NodeSelectorTerm{NodeSelectorTerm{MatchExpressions:"
        "[]NodeSelectorRequirement{NodeSelectorRequirement{Key:cpus,Operator:Gt,Values:[1 2],},},"
        "MatchFields:[]NodeSelectorRequirement{},},},}"
    )
