"""Tests how conditions are found and set."""

import pytest

from kubeskew.apimachinery.conditions import find_condition, with_condition

BEFORE = [
    {"type": "Ready", "status": "False", "lastTransitionTime": "t1"},
    {"type": "Done", "status": "True", "lastTransitionTime": "t2"},
]


@pytest.mark.parametrize("obj", [{}, {"status": None}, {"status": {"conditions": None}}])
def test_an_object_without_conditions_has_none_of_a_type(obj):
    """No condition is found where status or conditions are missing."""
    assert find_condition(obj, "Ready") is None


def test_a_condition_is_found_by_its_type():
    """The condition found is the one of the type asked for."""
    assert find_condition({"status": {"conditions": BEFORE}}, "Done") is BEFORE[1]


@pytest.mark.parametrize(("status", "time"), [("False", "t1"), ("True", "t3")])
def test_the_time_of_a_condition_stays_with_its_status(status, time):
    """A condition takes the place of the one of its type, with that one's time if the status is the same."""
    new = {"type": "Ready", "status": status, "lastTransitionTime": "t3", "reason": "r"}

    assert with_condition(BEFORE, new) == [{**new, "lastTransitionTime": time}, BEFORE[1]]


def test_a_condition_of_another_type_comes_last():
    """A condition of a new type is added at the end; the given list stays as it is."""
    new = {"type": "Other", "status": "True", "lastTransitionTime": "t3"}

    assert with_condition(BEFORE, new) == [*BEFORE, new]
    assert len(BEFORE) == 2
