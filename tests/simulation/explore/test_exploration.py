"""Explorations: seeds are spread over cells, findings are listed once, and nothing that was found is lost."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kubeskew.apimachinery.clock import SystemClock
from kubeskew.conformance.dealing.forked import ForkedPool
from kubeskew.conformance.errors import ScenarioError
from kubeskew.simulation.explore.classes import read_entries
from kubeskew.simulation.explore.exploration import Budget, Exploration, Pace, Watcher
from kubeskew.simulation.explore.findings import Failure, Finding, Origin
from kubeskew.simulation.explore.jobs import FinishJob, Ran, RunJob
from kubeskew.simulation.explore.report import Header, Kept, read_finding

CELLS = ("a/one", "b/two")
ORIGINS = [Origin(name, name.partition("/")[0], "build", f"digest of {name}") for name in CELLS]
HEADER = Header("build", {origin.cell: origin.digest for origin in ORIGINS}, ["crash"], {})


class Fixed:
    """A laboratory whose runs fail at some seeds."""

    def __init__(self, fails: Callable[[RunJob], str] = lambda _: "") -> None:
        self._fails = fails

    def run(self, job: RunJob) -> Ran:
        message = self._fails(job)
        failures = [Failure("I09", message, 7)] if message else []
        plan = {"seed": job.seed, "faults": [{"id": "one"}, {"id": "two"}]}
        points = [f"crash: {job.seed % 3}"]
        return Ran(
            *(job.seed, f"hash {job.cell} {job.seed}", 1.0, plan, ("one", "two")),
            drawn={"crash": 2},
            fired_faults={"crash": ["crash-1: scheduler"]},
            points=points,
            failures=failures,
        )

    def finish(self, job: FinishJob) -> Finding:
        if not job.seconds:
            return job.finding
        return replace(job.finding, faults=("one",), minimized=True, trials=3)


class Silent:
    """Shows nothing of an exploration, and keeps how far it had come."""

    def __init__(self) -> None:
        self.paces: list[Pace] = []

    def say(self, text: str) -> None:
        """Does nothing."""

    def pace(self, pace: Pace) -> None:
        """Keeps what it learns."""
        self.paces.append(pace)


def exploration(
    fails: Callable[[RunJob], str] = lambda _: "",
    kept: Kept | None = None,
    known: Path | None = None,
    watcher: Watcher | None = None,
) -> Exploration:
    entries = read_entries(known) if known else []
    return Exploration(ORIGINS, Fixed(fails), entries, SystemClock(), watcher or Silent(), kept)


def fails_late(job: RunJob) -> str:
    return f"ResourceQuota default/quota says {job.seed}" if job.seed >= 3 and job.cell == 1 else ""


def test_seeds_are_spread_over_the_cells():
    """Every cell gets as many seeds as the others, and what was reached is added up."""
    found = exploration()

    found.explore(ForkedPool(2), Budget(seeds=7))

    assert sorted(found.log_hashes) == [
        *(("a/one", seed) for seed in range(4)),
        *(("b/two", seed) for seed in range(3)),
    ]
    assert not found.failed
    assert found.as_json()["coverage"] == {
        "points": 3,
        "groups": {"crash": 3},
        "faults": {"crash": {"drawn": 14, "fired": 7}},
    }


def test_scenarios_take_turns():
    """With fewer runs than cells, each scenario gets its first one before any gets a second one."""
    cells = ("a/one", "a/two", "a/three", "b/one", "c/one", "c/two")
    origins = [Origin(name, name.partition("/")[0], "build", "digest") for name in cells]
    found = Exploration(origins, Fixed(), [], SystemClock(), Silent())

    found.explore(ForkedPool(1), Budget(seeds=4))

    assert list(found.log_hashes) == [("a/one", 0), ("b/one", 0), ("c/one", 0), ("a/two", 0)]


def test_findings_of_one_signature_are_one():
    """The first run that has it is reported and made smaller; the others are counted."""
    found = exploration(fails_late)

    found.explore(ForkedPool(1), Budget(seeds=20))

    (finding,) = found.as_json()["findings"]
    assert (finding["seed"], finding["seen"], finding["class"]) == (3, 7, "unknown")
    assert (finding["faults"], finding["minimized"], finding["trials"]) == (["one"], True, 3)
    assert finding["command"] == "kubeskew explore b/two --seed 3@build"
    assert found.failed


def test_a_run_that_did_not_end_is_reported_as_it_is():
    """There is no plan of it that could be made smaller: nothing is reported but the finding."""

    class Listening(Silent):
        def __init__(self) -> None:
            super().__init__()
            self.lines: list[str] = []

        def say(self, text: str) -> None:
            self.lines.append(text)

    def break_off(job: RunJob) -> str:
        if job.seed == 2:
            raise RuntimeError("it did not end")
        return ""

    listener = Listening()
    found = exploration(break_off, watcher=listener)

    found.explore(ForkedPool(1), Budget(seeds=6))

    (finding,) = found.as_json()["findings"]
    assert (finding["invariant"], finding["seed"], finding["minimized"]) == ("exception", 2, False)
    assert [text for text in listener.lines if "telling" in text or "not told" in text] == []


def test_findings_can_be_left_as_they_are():
    """Without minimizing, a finding has all faults of its run."""
    found = exploration(fails_late)

    found.explore(ForkedPool(1), Budget(seeds=8, minimize=False))

    (finding,) = found.findings.values()
    assert (finding.faults, finding.minimized) == (("one", "two"), False)


def test_known_findings_are_no_failure(tmp_path: Path):
    """Findings that upstream has, too, are reported, and the exploration does not fail."""
    entry = {"id": "stale", "invariant": "I09", "message": "says", "class": "known:123"}
    path = tmp_path / "known.yaml"
    path.write_text(json.dumps({"findings": [{**entry, "reason": "r", "source": "https://example.com"}]}))
    found = exploration(fails_late, known=path)

    found.explore(ForkedPool(1), Budget(seeds=8))

    assert [finding.verdict.class_ for finding in found.findings.values()] == ["known:123"]
    assert not found.failed


def test_time_ends_it():
    """Without a number of seeds it ends when its time has passed."""
    found = exploration(lambda _: time.sleep(0.05) or "")

    found.explore(ForkedPool(2), Budget(seconds=0.3))

    assert found.runs > 0


def test_an_interrupted_one_is_gone_on_with(tmp_path: Path):
    """All that was found until the interruption is kept; seeds that were run are not run again."""

    class Interrupting(Exploration):
        def _note(self, job: Any, answer: Any) -> None:
            super()._note(job, answer)
            if len(self.log_hashes) == 14:
                raise KeyboardInterrupt

    kept = Kept(tmp_path, HEADER)
    first = Interrupting(ORIGINS, Fixed(fails_late), [], SystemClock(), Silent(), kept)
    with pytest.raises(KeyboardInterrupt):
        first.explore(ForkedPool(1), Budget(seeds=16))
    (path,) = (tmp_path / "findings").iterdir()
    assert read_finding(path).seed == 3
    with (tmp_path / "runs.jsonl").open("a") as file:
        file.write('{"cell": "a/one", "se')  # as a crash may leave it

    kept = Kept(tmp_path, HEADER)
    second = exploration(fails_late, kept)
    second.explore(ForkedPool(1), Budget(seeds=16))

    assert (second.runs, len(second.log_hashes)) == (16, 2)
    (finding,) = second.findings.values()
    assert (finding.seed, finding.seen, finding.minimized) == (3, 5, True)
    assert read_finding(path) == finding
    assert exploration(kept=Kept(tmp_path, HEADER)).runs == 16


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (replace(HEADER, build="other"), "explored by another build of kubeskew"),
        (replace(HEADER, cells={**HEADER.cells, "a/one": "x"}), "the scenario of a/one has changed since"),
        (
            replace(HEADER, cells={"a/one": "digest of a/one"}),
            "an exploration of other cells, faults or bugs",
        ),
        (replace(HEADER, bugs={"k8s-132334": False}), "an exploration of other cells, faults or bugs"),
        (replace(HEADER, kinds=["kill"]), "an exploration of other cells, faults or bugs"),
    ],
)
def test_another_exploration_is_not_gone_on_with(tmp_path: Path, header: Header, said: str):
    """A directory of other code, other scenarios or other faults is refused in one line."""
    Kept(tmp_path, HEADER).begin()

    with pytest.raises(ScenarioError, match=said):
        exploration(kept=Kept(tmp_path, header))


def test_a_damaged_finding_is_one_line(tmp_path: Path):
    """A file that is no finding, or of another format, is reported in one line."""
    path = tmp_path / "x.json"
    for text, said in (("{", "no finding"), ("{}", "no finding"), ('{"formatVersion": 9}', "reads 1")):
        path.write_text(text)
        with pytest.raises(ScenarioError, match=said) as raised:
            read_finding(path)
        assert "\n" not in str(raised.value)


def test_what_ends_a_simulation_is_a_finding():
    """A run that raises is a finding of the simulation, and the others go on."""

    def breaks(job: RunJob) -> str:
        if job.seed == 2:
            raise RuntimeError("nothing is left to do")
        return ""

    found = exploration(breaks)
    found.explore(ForkedPool(2), Budget(seeds=8))

    assert found.runs == 8
    assert [each.failure.message for each in found.findings.values()] == [
        "the simulation: RuntimeError: nothing is left to do"
    ]


def test_the_pace_is_reported():
    """Whoever shows an exploration learns how many of its runs are done, the last time of all of them."""
    silent = Silent()
    exploration(watcher=silent).explore(ForkedPool(1), Budget(seeds=6))

    assert silent.paces[-1].done == silent.paces[-1].wanted == 6


def test_the_pace_of_one_that_goes_on(tmp_path: Path):
    """An exploration that goes on with an earlier one reports the runs that are left for it."""
    for seeds in (4, 6):
        kept = Kept(tmp_path, HEADER)
        silent = Silent()
        exploration(kept=kept, watcher=silent).explore(ForkedPool(1), Budget(seeds=seeds))

    assert silent.paces[-1].done == silent.paces[-1].wanted == 2


def test_the_pace_is_of_the_nearer_limit():
    """With runs and seconds limited, that limit counts which is nearer."""
    silent = Silent()
    exploration(watcher=silent).explore(ForkedPool(1), Budget(seeds=4, seconds=3600))

    assert silent.paces[-1].wanted == 4
