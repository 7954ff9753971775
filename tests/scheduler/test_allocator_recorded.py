"""The allocator against the recorded answers of Kubernetes 1.36."""

import json
from pathlib import Path

import pytest

from scheduler.allocator.cases import run_case

_DATA = Path(__file__).parents[1] / "data" / "allocator"
_CASES = [json.loads(line) for line in (_DATA / "cases-1.36.jsonl").read_text(encoding="utf-8").splitlines()]

# Cases that need prioritized lists, taints, counters, consumable capacity, binding conditions or list
# attributes. May only shrink.
_UNSUPPORTED = frozenset((_DATA / "unsupported-1.36.txt").read_text(encoding="utf-8").split())


def _ordered(answer):
    """The order of results says nothing."""
    for allocation in answer.get("allocations") or ():
        results = allocation["devices"].get("results") or []
        results.sort(key=lambda result: json.dumps(result, sort_keys=True))
    return answer


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case["name"])
def test_recorded_allocation(case):
    """A case gives the recorded answer; one listed as unsupported still does not."""
    same = _ordered(run_case(case)) == _ordered(case["expect"])

    assert same is (case["name"] not in _UNSUPPORTED)


def test_unsupported_cases_exist():
    """The list of unsupported cases names no case that is gone."""
    assert {case["name"] for case in _CASES} >= _UNSUPPORTED
