"""Operations that wait for what is reported: metrics, logs, numbers of objects."""

import pytest
from cell_in_memory import POD, Control, run

from kubeskew.conformance.evidence.log import Write

pytestmark = pytest.mark.looptime


async def one(operation: str, control: Control) -> str:
    """The failure of a cell that creates a pod and does one operation; empty if it did not fail."""
    operations = f"[{{apply: {{resource: {POD}}}}}, {{{operation}}}]"
    result = await run(f"\n  - name: one\n    try: {operations}\n", control)
    return result.failure.removeprefix("one: ")


@pytest.mark.parametrize(
    ("body", "failure"),
    [
        ("matches: ^B=2$", ""),
        ("lacks: C=", ""),
        ("matches: ^C=", "podLogs: expected a's log with ^C=; found A=1\nB=2"),
        ("lacks: ^B", "podLogs: expected no line of a's log to match ^B; found B=2"),
    ],
)
async def test_logs_are_searched_by_line(body: str, failure: str):
    """A line of the log matches, or none does."""
    control = Control()
    control.server.logs = "A=1\nB=2\n"

    assert await one(f"podLogs: {{name: a, {body}}}", control) == failure


async def test_of_a_long_log_its_end_is_reported():
    """A failure has the last lines of a log, and the number of those before."""
    control = Control()
    control.server.logs = "".join(f"line {number}\n" for number in range(1000))

    found = (await one("podLogs: {name: a, matches: ^C=}", control)).partition("found ")[2].splitlines()

    assert (found[0], found[1], found[-1]) == ("… 960 lines", "line 960", "line 999")


@pytest.mark.parametrize("body", ["matches: ^C=", "lacks: ^B"])
async def test_a_log_that_is_not_as_it_should_be_shows_who_ran_the_container(body: str):
    """A line of its own says who bound the pod, and which kubelet wrote of its containers last."""
    control = Control()
    control.server.logs = "A=1\nB=2\n"
    metadata = {"name": "a", "namespace": "kubeskew", "uid": "1"}
    bound = {"kind": "Pod", "metadata": {**metadata}, "spec": {"nodeName": "n"}}
    place = ("update", "pods", "kubeskew", "a")
    control.written = [
        Write(revision, f"2026-01-01T00:00:0{revision}.000000Z", *place, by, bound)
        for revision, by in ((7, "kube-scheduler 1.36"), (8, "kubelet/n 1.35"))
    ]
    failure = await one(f"podLogs: {{name: a, namespace: kubeskew, {body}}}", control)

    assert failure.splitlines()[-1] == (
        "run by kubelet/n 1.35, Pod a bound to n by kube-scheduler 1.36 at revision 7"
    )


@pytest.mark.parametrize(("since", "asked"), [("step", True), ("start", False)])
async def test_only_what_is_new_counts_if_asked(since: str, asked: bool):
    """With `since: step` the log is asked for from the step's beginning on."""
    control = Control()
    control.server.logs = "A=1\n"

    assert await one(f"podLogs: {{name: a, matches: A, since: {since}}}", control) == ""
    [target] = [request.target for request in control.server.seen if "/log" in request.target]
    assert ("sinceTime=" in target) is asked


async def test_a_log_has_no_other_beginnings():
    """`since` is the step or the start."""
    failure = await one("podLogs: {name: a, matches: A, since: noon}", Control())
    assert "podLogs.since: expected step or start" in failure


async def test_a_log_that_cannot_be_had_fails_in_time():
    """A log that cannot be read fails in time, with the API server's message."""
    failure = await one("podLogs: {name: a, matches: x}", Control())

    assert failure.startswith("podLogs: expected a's log with x; found ")


@pytest.mark.parametrize(
    ("count", "failure"),
    [
        (1, ""),
        (0, "assert: expected 0 Pod as asserted; found 1: Pod t/a"),
        (2, "assert: expected 2 Pod as asserted; found 1: Pod t/a"),
    ],
)
async def test_an_assertion_may_count(count: int, failure: str):
    """With a count just so many objects match."""
    failed = await one(f"assert: {{resource: {{apiVersion: v1, kind: Pod}}, count: {count}}}", Control())

    assert failed == failure


@pytest.mark.parametrize(
    ("count", "lacking"),
    [
        (2, "found 1: Pod t/b; not Pod t/a: metadata.(labels.app == 'b'): expected True, found False"),
        (0, "found 1: Pod t/b"),
    ],
)
async def test_an_assertion_that_finds_too_few_says_what_another_lacks(count: int, lacking: str):
    """Of the objects that do not match the closest is reported with what it lacks, unless too many match."""
    wanted = "{apiVersion: v1, kind: Pod, metadata: {(labels.app == 'b'): true}}"
    other = "{apiVersion: v1, kind: Pod, metadata: {name: b, labels: {app: b}}}"
    failed = await one(
        f"apply: {{resource: {other}}}}}, {{assert: {{resource: {wanted}, count: {count}}}", Control()
    )

    assert failed.partition("as asserted; ")[2] == lacking


@pytest.mark.parametrize(
    ("components", "calls"),
    [
        (", components: [scheduler]", [({"A": True}, ["scheduler"])]),
        (", components: []", []),
        ("", [({"A": True}, [])]),
    ],
)
async def test_gates_of_no_components_change_nothing(components: str, calls: list[object]):
    """An empty list means none of them, no list all of them."""
    control = Control()
    await one(f"gates: {{set: {{A: true}}{components}}}", control)

    assert [call[1:] for call in control.calls if call[0] == "gates"] == calls
