"""Says what a plan of faults allows the components of its run."""

from collections.abc import Iterator, Mapping
from datetime import timedelta

from kubeskew.apimachinery.faults.reading_values import duration
from kubeskew.conformance.invariants.tolerance import USUAL, Tolerance
from kubeskew.simulation.faults.effects import read_jump, read_latency
from kubeskew.simulation.faults.plan import Fault, Kind, Plan

_CUT_OFF = (Kind.OUTAGE, Kind.PARTITION, Kind.HALF_OPEN)


def tolerance_of(plan: Plan) -> Tolerance:
    """Returns by how much clocks may differ and caches may be behind: at most by all faults together."""
    skew = sum(abs(read_jump(fault.parameters[fault.effect])) for fault in plan.faults if _is_jump(fault))
    lag = sum(seconds for fault in plan.faults for seconds in _lags(fault))
    return Tolerance(timedelta(seconds=skew), USUAL.cache_lag + timedelta(seconds=lag))


def longest_of(fault: Fault) -> float:
    """Returns for how many seconds what a component sees may be behind because of a fault."""
    return max(_lags(fault), default=0.0)


def _is_jump(fault: Fault) -> bool:
    return fault.kind is Kind.CLOCK


def _lags(fault: Fault) -> Iterator[float]:
    """Yields for how long what a component sees may be behind because of a fault."""
    if fault.kind in _CUT_OFF:
        yield fault.seconds("for")
    for key in ("stale", "delay"):
        value = fault.parameters.get(key)
        longest = value.get("max") if isinstance(value, Mapping) else value
        if longest is not None:
            yield duration(longest, key)
    if fault.kind is Kind.LATENCY:
        yield read_latency(fault.parameters[fault.effect]).rare
