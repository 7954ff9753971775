"""Threads read the objects in memory while the event loop changes them."""

import random
import sys
import threading

import pytest
from randomness import SEED
from storage_cases import pod

from kubeskew.apiserver.storage.records import Entry
from kubeskew.apiserver.storage.store import STEP, ResourceIndex, page


def entry(name: str, revision: int, namespace: str = "default") -> Entry:
    return Entry(pod(name, namespace), "uid", revision, revision, b"{}")


@pytest.fixture
def hasty():
    """Threads take turns after a few instructions."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def read_on(
    indexes: ResourceIndex, stays: set[str], ended: threading.Event, failures: list[BaseException]
) -> int:
    """List until asked to end: in order, nothing twice, and all that nobody removes."""
    rounds = 0
    try:
        while not ended.is_set() or not rounds:
            for namespace in (None, "default"):
                found = [entry.key for entry in page(indexes, 1, namespace, None, 0, None).entries]
                assert [key.path for key in found] == sorted({key.path for key in found})
                assert stays <= {key.name for key in found}
                some = page(indexes, 1, namespace, found[0], 10, lambda one: one.revision >= 0)
                assert len(some.entries) == 10
            rounds += 1
    except BaseException as error:
        failures.append(error)
    return rounds


@pytest.mark.random
def test_lists_while_objects_come_and_go(hasty):
    """No list fails, loses what stays or shows anything twice, regardless of what is put and removed
    meanwhile."""
    indexes = ResourceIndex()
    stays = {f"stays-{number:04}" for number in range(200)}
    for name in stays:
        indexes.put(entry(name, 1))
    ended = threading.Event()
    failures: list[BaseException] = []
    readers = [threading.Thread(target=read_on, args=(indexes, stays, ended, failures)) for _ in range(2)]
    for reader in readers:
        reader.start()
    draw = random.Random(SEED)
    for revision in range(6_000):
        name = f"s{draw.randrange(400)}"
        namespace = draw.choice(("default", "default", "other", "third"))
        if draw.random() < 0.5:
            indexes.put(entry(name, revision, namespace))
        else:
            indexes.remove(pod(name, namespace))
    ended.set()
    for reader in readers:
        reader.join()

    assert failures == []


@pytest.mark.parametrize("count", [STEP - 1, STEP, STEP + 1, 2 * STEP])
def test_steps_meet(count: int):
    """Each name comes once, whether or not the names fill the last step of the index."""
    indexes = ResourceIndex()
    indexes.load(entry(f"p{number:05}", 1) for number in range(count))

    found = [one.key.name for one in page(indexes, 1, None, None, 0, None).entries]
    rest = page(indexes, 1, "default", pod(f"p{STEP - 2:05}"), 0, None).entries

    assert found == [f"p{number:05}" for number in range(count)]
    assert len(rest) == count - STEP + 1
