"""Tests what a plan of faults allows the components of its run."""

from datetime import timedelta

from kubeskew.conformance.invariants.invariant import USUAL
from kubeskew.simulation.faults.outcome import tolerance_of
from kubeskew.simulation.faults.plan import plan_of

SCHEDULER = {"component": "scheduler"}


def test_without_faults_it_is_the_usual():
    """A plan that moves no clock and delays no event allows nothing beyond what is usual."""
    crash = {"id": "c", **SCHEDULER, "verb": "create", "nth": 1, "crash": "after"}
    assert tolerance_of(plan_of({"faults": [crash]})) == USUAL


def test_jumps_and_delays_add_up():
    """Clocks may differ by all jumps together, caches be behind by all that can delay an event together."""
    faults = [
        {"id": "1", **SCHEDULER, "clockJump": "-2s", "at": "1s"},
        {"id": "2", **SCHEDULER, "clockJump": "3s", "at": "1s"},
        {"id": "3", **SCHEDULER, "event": "*", "times": 1, "stale": "4s"},
        {"id": "4", **SCHEDULER, "event": "*", "probability": 0.2, "delay": {"min": "0s", "max": "5s"}},
        {"id": "5", **SCHEDULER, "verb": "create", "nth": 1, "outage": "refuse", "for": "6s"},
        {"id": "6", "latency": {"usual": "1ms", "rare": "1s", "share": 0.1}},
    ]
    tolerance = tolerance_of(plan_of({"faults": faults}))
    assert tolerance.clock_skew == timedelta(seconds=5)
    assert tolerance.cache_lag == USUAL.cache_lag + timedelta(seconds=16)
