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


def test_the_three_patterns_come_at_each_site():
    """At each write a component dies or gets no answer; at each delivery it sees too old a state, or none."""
    made = plans(CALLS, tuple(Kind))

    assert len(made) == 2 * (3 + 3)
    assert patterns(made) == ["intermediate-1", "stale-1", "unanswered-1", "unobserved-1"]
    assert made == plans(CALLS, tuple(Kind))


def test_only_kinds_that_are_asked_for():
    """Plans with faults of other kinds are left out."""
    made = plans(CALLS, (Kind.CRASH,))
    assert (len(made), patterns(made)) == (3, ["intermediate-1"])
