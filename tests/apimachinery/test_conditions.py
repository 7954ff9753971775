"""Tests how conditions are found, made, set and removed."""

from datetime import UTC, datetime

import pytest

from kubeskew.apimachinery.conditions import (
    find_condition,
    is_condition_true,
    new_condition,
    transition_time,
    with_condition,
    without_condition,
)

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

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


@pytest.mark.parametrize(("kind", "expected"), [("Ready", False), ("Done", True), ("Other", False)])
def test_a_condition_is_true_if_it_is_there_with_the_status_true(kind, expected):
    """A condition that is false or missing is not true."""
    assert is_condition_true({"status": {"conditions": BEFORE}}, kind) is expected


def test_a_new_condition_has_its_fields_in_the_order_of_go():
    """The fields stand as Go writes metav1.Condition; the time has whole seconds."""
    new = new_condition("Ready", "True", "Reason", "text", NOW)

    assert [*new.items()] == [
        ("type", "Ready"),
        ("status", "True"),
        ("lastTransitionTime", "2026-01-02T03:04:05Z"),
        ("reason", "Reason"),
        ("message", "text"),
    ]


@pytest.mark.parametrize(
    ("present", "expected"),
    [
        (BEFORE[0], "t1"),
        (BEFORE[1], "2026-01-02T03:04:05Z"),
        ({"status": "False"}, "2026-01-02T03:04:05Z"),
        (None, "2026-01-02T03:04:05Z"),
    ],
)
def test_a_transition_is_as_old_as_the_status(present, expected):
    """Without a condition of the same status that has a time, the transition is now."""
    assert transition_time(present, "False", NOW) == expected


def test_conditions_of_a_type_are_left_out():
    """The others stay, and the given list does."""
    assert without_condition(BEFORE, "Ready") == [BEFORE[1]]
    assert len(BEFORE) == 2
