"""The power goes at any point: nothing acknowledged is lost, no half transaction is seen.

hack/powerloss records what the product does to a disk, and makes the disks that a crash may leave.
"""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[3] / "hack" / "powerloss"))

from defects import DEFECTS
from power_loss import KINDS, Result, run
from recorded_disk import Chance, History, Link, Platter, Rename, Sync, Unlink, Write
from sqlite_files import UnavailableError, library

FOUND_WITHIN = 300  # crashes
ALL = Chance(512, ["all"], 1.0, "all", extended=False, garbage=False)
NOTHING = Chance(512, ["nothing"], 0.0, "nothing", extended=False, garbage=False)


@pytest.fixture(autouse=True, scope="module")
def recordable():
    """SQLite is a shared library of this Python."""
    try:
        library()
    except UnavailableError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("kind", KINDS)
def test_a_crash_loses_nothing_that_was_told(kind):
    """Each disk that a crash may leave opens, has what was acknowledged, and goes on."""
    result = Result()
    run(kind, 1, 30, result)
    assert result.crashes[kind] == 30
    assert result.findings == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_crashes_lose_nothing_that_was_told(kind):
    """More histories hold the same."""
    result = Result()
    for seed in range(100, 104):
        run(kind, seed, 100, result)
    assert result.findings == []


@pytest.mark.parametrize("name", DEFECTS)
def test_a_planted_defect_is_found(name):
    """Each defect is found within some hundred crashes, which find nothing without it."""
    kind, plant = DEFECTS[name]
    result, seed = Result(), 1
    with plant():
        while not result.findings and result.crashes.total() < FOUND_WITHIN:
            run(kind, seed, 60, result, first=True)
            seed += 1
    assert result.findings, f"not found in {result.crashes.total()} crashes"


def test_a_history_is_the_same_again():
    """A seed gives the same operations and the same crashes each time."""
    found = []
    for _ in range(2):
        result = Result()
        run("commits", 5, 3, result)
        found.append((result.operations, result.crashes))
    assert found[0] == found[1]


def disk(*operations):
    """Goes through operations on an empty disk."""
    history = History()
    for operation in operations:
        history.add(operation)
    platter = Platter(history)
    platter.advance(len(operations))
    return platter


@pytest.mark.parametrize(
    ("operations", "least", "most"),
    [
        ([Link((0, "a"), 1), Write(1, 0, b"xy")], {}, {"a": b"xy"}),
        ([Link((0, "a"), 1), Write(1, 0, b"xy"), Sync(1, 2)], {}, {"a": b"xy"}),
        ([Link((0, "a"), 1), Sync(0, 1), Write(1, 0, b"xy")], {"a": b""}, {"a": b"xy"}),
        ([Link((0, "a"), 1), Write(1, 0, b"xy"), Sync(1, 2), Sync(0, 3)], {"a": b"xy"}, {"a": b"xy"}),
        (
            [Link((0, "a"), 1), Write(1, 0, b"xy"), Sync(1, 2), Rename((0, "a"), (0, "b")), Sync(0, 4)],
            {"b": b"xy"},
            {"b": b"xy"},
        ),
        ([Link((0, "a"), 1), Sync(0, 1), Unlink((0, "a"))], {"a": b""}, {}),
        ([Link((0, "a"), 1), Sync(0, 0)], {}, {"a": b""}),
    ],
)
def test_only_what_is_synced_is_sure(operations, least, most):
    """A file is sure with its content synced after it was written, a name with its directory."""
    from random import Random

    assert disk(*operations).crash(Random(0), NOTHING) == least
    assert disk(*operations).crash(Random(0), ALL) == most
