"""Time lines: two runs stand side by side where they part."""

from kubeskew.conformance.evidence.log import ComponentChange, Logged, Write
from kubeskew.simulation.explore.timelines import side_by_side


def moment(revision: int) -> str:
    return f"2026-01-01T00:{revision // 60:02}:{revision % 60:02}.000000Z"


def write(revision: int, name: str, by: str = "kube-scheduler 1.36", node: str = "") -> Write:
    """A write of a pod, which may be bound to a node."""
    pod = {"kind": "Pod", "metadata": {"namespace": "default", "name": name}, "spec": {"nodeName": node}}
    verb = "update" if node else "create"
    return Write(revision, moment(revision), verb, "pods", "default", name, by, pod)


def common(count: int) -> list[Logged]:
    return [write(revision, f"pod-{revision}") for revision in range(1, count + 1)]


def test_runs_part_at_the_first_difference():
    """A few rows that both have come first; then those of each run, and the fault is marked."""
    fault = ComponentChange(11, moment(11), "scheduler", "fault-fired", "1.36", "", "lost-binding")
    pairs = side_by_side(
        [*common(10), fault, write(12, "pod-1", "client")], [*common(10), write(11, "pod-1", node="node-1")]
    )

    assert [(one and one.what, two and two.what) for one, two in pairs[:4]] == [
        (f"create pods default/pod-{number}",) * 2 for number in range(7, 11)
    ]
    rest = [row for pair in pairs[4:] for row in pair if row is not None]
    assert ("fault-fired lost-binding", "fault") in [(row.what, row.mark) for row in rest]
    assert "update pods default/pod-1: spec.nodeName:  → node-1" in [row.what for row in rest]


def test_what_comes_later_in_both_is_paired():
    """Behind the parting, rows that both have stand next to each other again."""
    pairs = side_by_side(
        [*common(3), write(4, "extra"), write(5, "same")], [*common(3), write(4, "same"), write(5, "other")]
    )

    names = [tuple(row.what.rpartition("/")[2] if row else "" for row in pair) for pair in pairs]
    assert names[3:] == [("extra", ""), ("same", "same"), ("", "other")]
    assert pairs[3][0] is not None
    assert pairs[3][0].mark == "parted"


def test_what_was_found_is_shown_though_it_came_much_later():
    """The entry at which an invariant broke is shown and marked, behind a gap if it is far away."""
    log = [*common(3), *(write(revision, f"late-{revision}") for revision in range(4, 60))]

    pairs = side_by_side(log, common(3), found=50)

    gap = pairs.index((None, None))
    marked = [one for one, _ in pairs[gap + 1 :] if one is not None and one.mark == "found"]
    assert [one.revision for one in marked] == [50]
    assert len(pairs) < 30


def test_runs_that_do_not_part_and_empty_ones():
    """Two runs that are alike show their ends, and no log is no row."""
    assert side_by_side([], []) == []
    assert [row.mark for pair in side_by_side(common(9), common(9)) for row in pair if row] == [""] * 8
