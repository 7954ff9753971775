"""Advised commands work as they stand, and lists fit the terminal."""

import asyncio
import json
import shlex
from datetime import UTC, datetime

import pytest

from kubeskew.cli import terminal
from kubeskew.cli.commands.options import table
from kubeskew.cli.commands.status import _watch
from kubeskew.cli.main import main
from kubeskew.cluster.pki import Authority
from kubeskew.cluster.state import Process, State, StateDir


def refused(capsys, *arguments):
    """Runs a command; returns its status and what it printed to standard error."""
    with pytest.raises(SystemExit) as ended:
        main([*arguments])
    return ended.value.code, capsys.readouterr().err


@pytest.mark.parametrize("before", [True, False], ids=["before the command", "behind it"])
def test_a_hint_names_the_state_directory_that_was_given(capsys, tmp_path, before):
    """A command that is advised has the --state-dir that was given, quoted for a shell."""
    given = ["--state-dir", str(tmp_path / "my cluster")]
    arguments = [*given, "status"] if before else ["status", *given]

    code, err = refused(capsys, *arguments)

    assert code == 2
    assert f"start one with `kubeskew --state-dir {shlex.quote(given[1])} up`" in err


def test_a_hint_names_no_state_directory_of_its_own(capsys, tmp_path, monkeypatch):
    """The command alone is advised if no directory was given, or the environment names it."""
    monkeypatch.setenv("KUBESKEW_STATE_DIR", str(tmp_path / "other"))

    assert "start one with `kubeskew up`" in refused(capsys, "status")[1]


def test_a_command_without_state_directory_is_left_as_it_is(capsys, tmp_path):
    """A command that is about no cluster gets no --state-dir."""
    code, err = refused(capsys, "--state-dir", str(tmp_path), "explore", "kep-9*")

    assert code == 2
    assert "`kubeskew matrix --profile full --list`" in err


@pytest.mark.parametrize("width", [40, 60, 200, None])
def test_a_table_fits_the_terminal(width):
    """No line of a table is wider than the terminal; what goes into a file is not cut."""
    rows = [{"cell": "kep-5004/pairs/" + "x" * 60, "result": "fails as upstream", "steps": 12}]

    lines = table(["CELL", "RESULT", "STEPS"], rows, (), width)

    assert max(map(len, lines)) <= (width or 200)
    assert ("x" * 60 in lines[1]) == (width in (200, None))


@pytest.fixture
def directory(tmp_path):
    """A state directory with the record of a cluster that does not run."""
    directory = StateDir(tmp_path)
    state = State(runtime_config={})
    for kind in ("apiserver", "scheduler"):
        state.processes[kind] = Process(kind, kind, "1.36", {}, 1)
    directory.save(state)
    directory.ca.write_bytes(Authority.create(datetime.now(UTC)).pair.certificate)
    directory.token.write_text("t")
    return directory


class Turns:
    """A clock whose sleeps do what is to happen meanwhile, one thing after the other; then the watch ends."""

    def __init__(self, *deeds):
        self.deeds = list(deeds)

    async def sleep(self, seconds):
        if not self.deeds:
            raise KeyboardInterrupt
        self.deeds.pop(0)()


@pytest.mark.parametrize("output", ["table", "json"])
def test_status_is_shown_again_when_it_changes(directory, capsys, output):
    """`status --watch` prints what there is at first, and then whenever it is something else."""

    def upgrade():
        state = directory.load()
        state.processes["scheduler"].version = "1.37"
        directory.save(state)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(_watch(directory, output, Turns(lambda: None, upgrade, lambda: None)))

    out = capsys.readouterr().out
    assert (out.count("1.37"), out.index("1.36") < out.index("1.37")) == (1, True)


def test_status_stays_in_its_place_on_a_terminal(capsys, monkeypatch):
    """On a terminal what is shown again takes the place of what was there."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    terminal.replace("one")

    assert capsys.readouterr().out == "\x1b[H\x1b[2Jone\n"


def test_logs_are_listed_as_json(directory, capsys):
    """`logs -o json` lists the logs; for one log there is no JSON."""
    directory.log("scheduler").parent.mkdir()
    directory.log("scheduler").write_text("I1123\n")
    with pytest.raises(SystemExit):
        main(["--state-dir", str(directory.path), "logs", "-o", "json"])

    (listed,) = json.loads(capsys.readouterr().out)
    assert (listed["component"], listed["bytes"]) == ("scheduler", 6)
    code, err = refused(capsys, "--state-dir", str(directory.path), "logs", "scheduler", "-o", "json")
    assert (code, "-o json is of the list of logs" in err) == (2, True)


def test_an_exploration_does_not_take_a_matrix_report(capsys, tmp_path):
    """`explore --report` refuses a directory with the report of a matrix, which it would overwrite."""
    (tmp_path / "report.json").write_text("{}")

    code, err = refused(capsys, "explore", "kep-5004/quota/1.35", "--seeds", "1", "--report", str(tmp_path))

    assert code == 2
    assert f"--report {tmp_path}: the report of a run or matrix is there, which would be lost" in err
    assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]


def test_a_change_says_how_long_it_took(capsys, monkeypatch, tmp_path):
    """A command that changes the cluster ends with a line on how long that took."""

    async def killed(cluster, name):
        cluster.progress(f"{name}: killed")

    monkeypatch.setattr("kubeskew.cluster.cluster.Cluster.kill", killed)
    code, err = refused(capsys, "--state-dir", str(tmp_path), "kill", "scheduler")

    first, last = err.splitlines()
    assert (code, first) == (0, "· scheduler: killed")
    assert last.startswith("· done in 0.")


@pytest.mark.parametrize(("arguments", "nodes"), [([], 3), (["--like", "kind"], 4), (["--nodes", "1"], 1)])
def test_up_takes_its_flags(capsys, monkeypatch, tmp_path, arguments, nodes):
    """`up` begins with the cluster that its flags describe; without any, with three nodes alike."""
    asked = []

    async def noted(_cluster, spec, force):
        assert not force
        asked.append(spec)

    monkeypatch.setattr("kubeskew.cluster.cluster.Cluster.up", noted)
    code, err = refused(capsys, "--state-dir", str(tmp_path), "up", *arguments)

    assert code == 0, err
    assert len(asked[0].nodes) == nodes


def test_a_state_directory_that_cannot_be_made_is_reported_with_what_to_do(capsys, tmp_path):
    """A file on the way, or a directory of somebody else's, is one line that names --state-dir."""
    (tmp_path / "file").write_text("")
    state = tmp_path / "file" / "state"
    assert refused(capsys, "--state-dir", str(state), "up") == (
        1,
        f"kubeskew: cannot make {state}: Not a directory: name another directory with --state-dir\n",
    )
