"""Systematic plans: one disturbance each, at every write and every delivery of a run without faults."""

from kubeskew.simulation.explore.systematic import plans, sites
from kubeskew.simulation.faults.plan import Kind, Plan

CALLS = {
    "scheduler": {
        "create pods/binding": 2,
        "list pods": 1,
        "update leases": 9,
        "MODIFIED event of pods": 3,
        "BOOKMARK event of pods": 4,
    },
    "driver/gpu.example.com": {"create resourceslices": 1, "ADDED event of resourceslices": 2},
    "apiserver": {"commit: update pods": 7},
}


def patterns(made: list[Plan]) -> list[str]:
    return sorted({plan.faults[0].name for plan in made})


def test_every_write_and_delivery_is_a_site():
    """Writes of clients and events that components act on are sites; reads, leases and bookmarks are none."""
    found = [(each.component, f"{each.verb} {each.resource}", each.number) for each in sites(CALLS)]

    assert found == [
        ("driver/gpu.example.com", "create resourceslices", 1),
        *(("scheduler", "MODIFIED pods", number) for number in (1, 2, 3)),
        *(("scheduler", "create pods/binding", number) for number in (1, 2)),
    ]


def test_the_patterns_come_at_each_site():
    """At each write a component dies, gets no answer or an error, or is not sent; at each call of a driver
    the driver takes its time instead of an error; at each delivery it sees too old a state, for short or for
    long, or none."""
    made = plans(CALLS, tuple(Kind))

    assert len(made) == 4 * 3 + 3 * 3
    assert patterns(made) == [
        *("blind-1", "intermediate-1", "refused-1", "stale-1", "unanswered-1", "unobserved-1", "unsent-1"),
    ]
    assert made == plans(CALLS, tuple(Kind))

    calls = plans({"kubelet/node": {"NodePrepareResources plugins": 1}}, tuple(Kind))
    assert patterns(calls) == ["intermediate-1", "slow-1", "unanswered-1", "unsent-1"]


def test_only_kinds_that_are_asked_for():
    """Plans with faults of other kinds are left out."""
    made = plans(CALLS, (Kind.CRASH,))
    assert (len(made), patterns(made)) == (3, ["intermediate-1"])


def test_each_kind_of_call_has_its_turn():
    """One plan of each pattern at each kind of call comes before a second one of any of them."""
    calls = {"scheduler": {"create pods/binding": 50, "update resourceclaims": 1}}
    first = plans(calls, tuple(Kind))[: 2 * 4]

    assert len({(plan.faults[0].name, plan.faults[0].parameters["resource"]) for plan in first}) == 8


def numbers(calls: dict[str, dict[str, int]], pattern: str) -> list[tuple[str, int]]:
    """Returns component and number of the call of each plan of a pattern, in the order of the plans."""
    faults = [plan.faults[0] for plan in plans(calls, tuple(Kind))]
    return [(each.target, each.as_json().get("nth", 0)) for each in faults if each.name == f"{pattern}-1"]


def test_calls_of_a_kind_are_spread_over_the_run():
    """The last call comes first, then the first, then those in the middle of what is left; nodes begin at
    different ends, and deletions that are delivered with the first."""
    calls = {"scheduler": {"create pods/binding": 5}}
    assert [number for _, number in numbers(calls, "unsent")] == [5, 1, 3, 2, 4]
    nodes = {f"kubelet/{name}": {"delete pods": 3} for name in ("a", "b")}
    assert numbers(nodes, "unsent") == [
        *(("kubelet/a", 3), ("kubelet/b", 1), ("kubelet/a", 1), ("kubelet/b", 3)),
        *(("kubelet/a", 2), ("kubelet/b", 2)),
    ]
    deletions = {"scheduler": {"DELETED event of pods": 3}}
    assert [number for _, number in numbers(deletions, "unobserved")] == [1, 3, 2]


def test_what_workloads_do_without_comes_last():
    """Plans at writes of accounts and the like come after all plans at writes of what workloads need."""
    calls = {"controller-manager": {"create serviceaccounts": 1, "create pods": 9}}
    resources = [plan.faults[0].parameters["resource"] for plan in plans(calls, tuple(Kind))]
    assert resources == ["pods"] * 9 * 4 + ["serviceaccounts"] * 4
