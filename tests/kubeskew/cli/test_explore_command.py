"""`kubeskew explore`: what it prints, that a seed repeats a run, and one clear line for wrong usage."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from kubeskew.cli.main import main
from kubeskew.conformance.resumption import digest_of_package
from kubeskew.simulation.explore.classes import Verdict
from kubeskew.simulation.explore.exploration import Budget, Exploration
from kubeskew.simulation.explore.findings import Failure, Finding
from kubeskew.simulation.explore.jobs import Ran, RunJob
from kubeskew.simulation.explore.selection import cells_named, finding_to_replay, origin_of

CELL = "kep-5004/upgrade-downgrade/explicit/1.35-1.36-1.35"


def explore(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Runs the command; returns exit status and what it printed."""
    with pytest.raises(SystemExit) as ended:
        main(["explore", *arguments])
    printed = capsys.readouterr()
    assert isinstance(ended.value.code, int)
    return ended.value.code, printed.out, printed.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([CELL, "--seeds", "0"], "--seeds 0: there is nothing to run; give 1 or more"),
        ([CELL, "--seconds", "0"], "--seconds 0: there is no time to run anything"),
        ([CELL, "--faults", "crush"], "--faults: there is no kind crush; there are"),
        ([CELL, "--faults", "crush"], "did you mean crash?"),
        ([CELL, "--seed", "one"], "--seed: expected a number such as 7, or 7@BUILD, found 'one'"),
        ([CELL, "--seed", "7@abc"], "--seed 7@abc: recorded at build abc, this is"),
        ([CELL, "--seed", "7", "--seeds", "3"], "--seed repeats one run: leave out --seeds and --seconds"),
        ([CELL, "--until", "("], "--until: '(' is no regular expression"),
        ([f"{CELL}x"], f"there is no cell {CELL}x; there are"),
        (["kep-5004/upgrade"], "there is no scenario kep-5004/upgrade"),
        (["kep-9*"], "no cell has a name like kep-9*"),
        (["none.json"], "cannot read none.json: No such file or directory"),
        (["none.json", CELL], "name one finding's file, and nothing else"),
        ([CELL, "--bugs", "k8s-1=off"], "--bugs"),
        (
            ["none.json", "--bugs", "k8s-132334=off"],
            "--bugs: a finding's file says what is run; leave it out",
        ),
        (["none.json", "--seed", "1"], "--seed: a finding's file says what is run; leave it out"),
        ([CELL, "--known", "none.yaml"], "cannot read none.yaml: No such file or directory"),
    ],
)
def test_wrong_usage_is_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str], said: str):
    """Wrong usage exits with 2 and one line that says what to do."""
    code, out, err = explore(capsys, *arguments)

    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def finding(tmp_path: Path, **changes: Any) -> Path:
    """Writes the file of a finding, with changes."""
    (cell,) = cells_named([CELL], {})
    known = Finding(
        *(origin_of(cell), 3, Failure("I09", "found"), Verdict("unknown")),
        *({"seed": 3, "faults": []}, (), "hash"),
        steps=1,
    )
    path = tmp_path / "finding.json"
    assert known.origin.build == digest_of_package().hex()
    path.write_text(json.dumps({**known.as_json(), **changes}))
    return path


def test_switched_bugs_are_of_the_cluster_and_of_the_command_that_repeats_a_finding(tmp_path: Path):
    """A cell explored with a known bug switched has it so in its cluster, and so does who runs it again."""
    (cell,) = cells_named([CELL], {"k8s-132334": False})
    known = Finding(
        *(origin_of(cell), 3, Failure("I09", "found"), Verdict("unknown")),
        *({"seed": 3, "faults": []}, (), "hash"),
    )
    path = tmp_path / "finding.json"
    path.write_text(json.dumps(known.as_json()))
    _, again = finding_to_replay(path)

    assert known.command.endswith("--bugs k8s-132334=off")
    assert [each.cluster()["bugs"] for each in (cell, again)] == [{"k8s-132334": False}] * 2


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"build": "0123456789abcdef"}, "recorded at build 0123456789ab, this is"),
        ({"digest": "0"}, f"the scenario of {CELL} has changed since: explore it again"),
        ({"cell": "kep-5004/upgrade-downgrade/gone"}, "there is no cell kep-5004/upgrade-downgrade/gone any"),
        ({"plan": {"seed": 3, "faults": [{"id": "a", "burn": True}]}}, "fault a: expected one of"),
        ({"plan": None}, "expected {"),
    ],
)
def test_a_finding_that_means_something_else_now_is_not_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, changes: dict[str, Any], said: str
):
    """A finding of another build, of a changed scenario or with unknown faults is one line, exit 2."""
    code, out, err = explore(capsys, str(finding(tmp_path, **changes)))

    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("terminated", [False, True])
@pytest.mark.parametrize("kept", [False, True])
def test_an_interrupted_exploration_shows_what_it_found(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    kept: bool,
    terminated: bool,
):
    """Ctrl-C or SIGTERM ends it with status 130; what was found is printed, and kept where a report is asked
    for."""

    def explore_until_interrupted(self: Exploration, _count: int, _budget: Budget) -> None:
        failure = Failure("I09", "the quota is wrong")
        plan = {"seed": 3, "faults": []}
        self._note(RunJob(0, 3), Ran(3, "hash", 1.0, plan, (), failures=[failure]))
        if terminated:
            signal.raise_signal(signal.SIGTERM)
        raise KeyboardInterrupt

    monkeypatch.setattr(Exploration, "explore", explore_until_interrupted)
    code, out, _ = explore(capsys, CELL, *(("--report", str(tmp_path / "report")) if kept else ()))

    assert code == 130
    assert "I09: the quota is wrong" in out
    assert "1 runs in" in out
    assert len([*tmp_path.glob("report/findings/I09-*.json")]) == kept
    assert (tmp_path / "report" / "index.html").exists() == kept


@pytest.mark.timeout(600)
def test_a_seed_repeats_a_run_to_the_byte(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    """Two explorations of one seed report the same, and so does the run that is kept."""
    reports = []
    for number in range(2):
        directory = tmp_path / str(number)
        flags = ("--seed", "5", "--no-minimize", "--jobs", "1", "--report", str(directory), "-o", "json")
        code, out, _ = explore(capsys, CELL, *flags)
        report = json.loads(out)
        failing = any(each["class"] in ("defect", "unknown") for each in report["findings"])
        assert code == (1 if failing else 0)
        assert report["runs"] == 1
        (run,) = map(json.loads, (directory / "runs.jsonl").read_text().splitlines())
        reports.append((report["findings"], report["coverage"], run["logHash"], run["fired"]))

    assert reports[0] == reports[1]
    assert reports[0][1]["points"] > 10


@pytest.mark.timeout(600)
def test_a_finding_is_run_again(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    """A finding's file is run with its faults and steps, and it is said whether it was found again."""
    code, out, err = explore(capsys, str(finding(tmp_path)))

    assert (code, "1 runs in" in out) == (0, True)
    assert "not found again; the log is another than the recorded one" in err
