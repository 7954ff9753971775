"""The allocator against the recorded answers of Kubernetes 1.36.2."""

import json

import pytest
from recorded import DATA

from kubeskew.scheduler.allocator.cases import run_case

_DATA = DATA / "allocator"
_CASES = [json.loads(line) for line in (_DATA / "cases-1.36.jsonl").read_text(encoding="utf-8").splitlines()]
_VERSION = "1.36.2"  # later patches give back what a refused device has taken
_SHARE = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"  # as recorded; random in reality


def _ordered(allocations):
    """The order of results says nothing."""
    for allocation in allocations or ():
        results = allocation["devices"].get("results") or []
        results.sort(key=lambda result: json.dumps(result, sort_keys=True))
    return allocations


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case["name"])
def test_recorded_allocation(case):
    """A case gives the recorded answer."""
    expected = {"allocations": None, **case["expect"]}
    answer = run_case({**case, "version": _VERSION}, lambda: _SHARE)

    assert {**answer, "allocations": _ordered(answer["allocations"])} == {
        **expected,
        "allocations": _ordered(expected["allocations"]),
    }
