"""The invariants at the end of every cell: what is broken is red, unless the file says upstream breaks it."""

import pytest
from cell_in_memory import POD, Control, run

from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.evidence.log import Write
from kubeskew.conformance.invariants.invariant import Violation

pytestmark = pytest.mark.looptime

MARK = (
    "{when: (`true`), steps: [invariants], found: %s, reason: as upstream, source: kubernetes/kubernetes#1}"
)
HEADER = "{cluster: {}, expectedFailures: [%s]}"
WORKS = f"""
  - name: works
    try: [{{apply: {{resource: {POD}}}}}]
"""
TWICE = Violation("I01", "device-once", "gpu-0 is allocated to b (written by kube-scheduler 1.36)", 7)
ENDED = Violation("I14", "no-crash", "scheduler ended by itself", 9)


def judged(*found: Violation) -> Control:
    control = Control()
    control.broken = [*found]
    return control


async def test_a_broken_invariant_is_the_cells_failure():
    """A cell whose steps all passed is red, and says which invariant was broken, on what and by whom."""
    result = await run(WORKS, judged(TWICE))

    assert result.outcome == "failed"
    assert result.failure == (
        "invariants: judge the log: expected every invariant to hold; "
        "found I01 device-once: gpu-0 is allocated to b (written by kube-scheduler 1.36)"
    )


async def test_the_log_is_what_is_judged():
    """The judge gets the whole log, and the step has the time and revision of its end."""
    control = judged(TWICE)
    control.written = [
        Write(number, f"2026-01-01T00:00:0{number}Z", "create", "events", "t", "e", "x", {"metadata": {}})
        for number in (1, 2)
    ]
    result = await run(WORKS, control)

    assert control.judged == control.written
    assert (result.steps[-1].revisions, result.steps[-1].since) == ((2, 2), "2026-01-01T00:00:02Z")


@pytest.mark.parametrize("broken", [None, []])
async def test_where_nothing_is_broken_there_is_no_such_step(broken: list[Violation] | None):
    """A cell that kept the invariants, or whose cluster nobody judges, has the steps of its file alone."""
    control = Control()
    control.broken = broken
    result = await run(WORKS, control)

    assert [step.name for step in result.steps] == ["works"]
    assert result.outcome == "passed"


@pytest.mark.parametrize(
    ("found", "marks", "outcome"),
    [
        ([TWICE], ["I01 device-once"], "expected"),
        ([TWICE, TWICE], ["I01 device-once"], "expected"),
        ([TWICE], ["I02"], "failed"),
        ([TWICE, ENDED], ["I01 device-once"], "failed"),
        ([TWICE, ENDED], ["I01 device-once", "I14 no-crash"], "expected"),
        ([TWICE], ["I01 device-once", "I14 no-crash"], "failed"),
        ([], ["I01 device-once"], "failed"),
    ],
)
async def test_only_what_the_file_declares_may_be_broken(
    found: list[Violation], marks: list[str], outcome: str
):
    """Each violation needs a mark that matches, and each mark a violation."""
    result = await run(WORKS, judged(*found), HEADER % ", ".join(MARK % mark for mark in marks))

    assert result.outcome == outcome


async def test_a_mark_asks_nothing_of_a_cluster_that_is_not_judged():
    """On somebody else's cluster there is no log, and the mark is neither met nor missed."""
    control = Control()
    control.broken = None
    result = await run(WORKS, control, HEADER % (MARK % "I01 device-once"))

    assert result.outcome == "passed"


async def test_a_cell_that_failed_is_judged_too():
    """The step that failed is reported first; what was broken stands behind the steps that were left out."""
    steps = f"""
  - name: waits
    try: [{{assert: {{resource: {POD}}}}}]
{WORKS}"""
    result = await run(steps, judged(TWICE))

    assert result.failure.startswith("waits: ")
    assert [step.name for step in result.steps] == ["waits", "works", "invariants"]


async def test_each_branch_of_a_fork_is_judged():
    """A violation that two branches share is reported once, and one of a single branch is reported, too."""
    control = judged()
    branches = {"kept": [TWICE], "rolled back": [TWICE, ENDED]}

    def forked() -> None:
        for name, broken in branches.items():
            control.branches[name].broken = [*broken]

    control.forked = forked
    steps = """
  - name: parts
    try: [{fork: {branches: [{name: kept}, {name: rolled back}]}}]
"""
    result = await run(steps, control)

    assert [operation.found[:3] for operation in result.steps[-1].operations] == ["I01", "I14"]


async def test_no_step_has_the_name_of_the_invariants():
    """A mark of that name could mean either."""
    with pytest.raises(ScenarioError, match="a step named invariants"):
        await run(WORKS.replace("works", "invariants"), Control())
