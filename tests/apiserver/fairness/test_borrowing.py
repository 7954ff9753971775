"""Seats shared out by demand: what levels could use of late, and what they get for the next period."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeskew.apiserver.fairness.levels import Bounds, Demand, Occupancy, Wanted, allocation, allot

# name: what a kube-apiserver 1.36.3 shows of its levels a few seconds after its start, with 600 seats.
# Seats by shares, that are never lent, at most, and now.
FRESH = {
    "catch-all": (Bounds(13, 13, 613), 30),
    "exempt": (Bounds(0, 0, 600, exempt=True), 1),
    "global-default": (Bounds(49, 24, 649), 56),
    "leader-election": (Bounds(25, 25, 625), 58),
    "node-high": (Bounds(98, 73, 698), 170),
    "system": (Bounds(74, 50, 674), 117),
    "workload-high": (Bounds(98, 49, 698), 114),
    "workload-low": (Bounds(245, 24, 845), 56),
}


def test_a_fresh_server_shares_out_its_seats_as_a_real_one():
    """Levels that nobody has used have seats in proportion to what they never lend, as recorded of 1.36.3."""
    levels = [
        (name, bounds, Demand(most=1) if bounds.exempt else Demand()) for name, (bounds, _) in FRESH.items()
    ]

    found = allot(levels, {})

    assert found.seats == {name: seats for name, (_, seats) in FRESH.items()}
    assert found.fair_share == pytest.approx(2.3333333333333335)
    assert {name: found.targets[name] for name in FRESH if name != "exempt"} == {
        name: bounds.lower for name, (bounds, _) in FRESH.items() if name != "exempt"
    }


@pytest.mark.parametrize(
    ("lender", "borrower", "seats"),
    [
        (Demand(), Demand(most=8, smoothed=8.0), (0, 10)),  # who asks for nothing lends all
        (Demand(most=3, smoothed=1.0), Demand(most=8, smoothed=8.0), (3, 7)),  # but not what it has used
        (Demand(most=9, smoothed=9.0), Demand(most=9, smoothed=9.0), (5, 5)),  # nor of its own share
    ],
)
def test_levels_borrow_what_others_do_not_use(lender, borrower, seats):
    """A level gets more than its share as far as others have not used theirs."""
    levels = [("lender", Bounds(5, 0, 15), lender), ("borrower", Bounds(5, 5, 15), borrower)]

    assert tuple(allot(levels, {}).seats.values()) == seats


def test_exempt_levels_go_first():
    """An exempt level takes what it has used from the others, down to what they never lend."""
    levels = [
        ("exempt", Bounds(0, 0, 10, exempt=True), Demand(most=7)),
        ("a", Bounds(5, 2, 15), Demand(most=5, smoothed=5.0)),
        ("b", Bounds(5, 0, 15), Demand(most=5, smoothed=5.0)),
    ]

    assert allot(levels, {}).seats == {"exempt": 7, "a": 2, "b": 1}


@st.composite
def problems(draw):
    """Classes with a sum that their bounds allow."""
    classes = []
    for _ in range(draw(st.integers(1, 6))):
        lower = draw(st.integers(0, 50))
        upper = lower + draw(st.integers(0, 50))
        classes.append(Wanted(draw(st.floats(lower, lower + 80)), lower, upper))
    low, high = sum(one.lower for one in classes), sum(one.upper for one in classes)
    return draw(st.integers(int(low), int(high))), classes


@given(problems())
def test_an_allocation_is_fair(problem):
    """All seats are given out, each within its bounds: a share of the target, or the bound that holds it."""
    total, classes = problem

    found, share = allocation(total, classes)

    assert sum(found) == pytest.approx(total, abs=1e-4)
    if total == 0:
        return
    for one, seats in zip(classes, found, strict=True):
        wanted = share * max(one.target, 0.001)
        assert one.lower - 1e-4 <= seats <= one.upper + 1e-4
        assert seats == pytest.approx(max(one.lower, min(one.upper, wanted)), abs=1e-3)


@pytest.mark.parametrize("total", [-1, 4, 31])
def test_what_no_allocation_can_reach(total):
    """A sum outside of all bounds is refused."""
    with pytest.raises(ValueError, match="do not lie between"):
        allocation(total, [Wanted(5, 5, 10), Wanted(20, 0, 20)])


def test_demand_of_a_period():
    """Demand is what runs and waits: on average over time, at most, and smoothed downwards only."""
    occupancy = Occupancy(100.0)
    occupancy.begin(102.0)
    for change in (1, 1, 1, -1, -1, -1):
        occupancy.wait(104.0, change)
    period = occupancy.restart(110.0)

    demand = Demand().after(period)

    assert (demand.average, demand.most) == (0.8, 4)
    assert demand.deviation == pytest.approx(0.4)
    assert demand.smoothed == pytest.approx(1.2)
    after = demand.after(occupancy.restart(120.0))
    assert (after.average, after.deviation, after.most) == (1.0, 0.0, 1)
    assert after.smoothed == pytest.approx(0.977 * 1.2 + 0.023)


def test_many_periods_at_once_are_as_each_of_them():
    """Demand after several periods that are alike is what it is when each is looked at."""
    at_once = Demand(smoothed=8.0).after({(2, 0): 50.0}, times=5)

    one_by_one = Demand(smoothed=8.0)
    for _ in range(5):
        one_by_one = one_by_one.after({(2, 0): 10.0})

    assert at_once.smoothed == pytest.approx(one_by_one.smoothed)
    assert math.isclose(at_once.average, one_by_one.average)
