"""Tests `kubeskew logs` on a state directory without processes."""

import pytest
from click.testing import CliRunner

from kubeskew.cli.commands.status import logs
from kubeskew.cluster.state import Process, State, StateDir

PLUGINS = "2026-01-01T00:00:01.000Z I a: one\nTraceback\n2026-01-01T00:00:03.000Z I a: three\n"
CONTROLLER = "2026-01-01T00:00:02.000Z I b: two\n"
BOTH = """driver/d: 2026-01-01T00:00:01.000Z I a: one
driver/d: Traceback
driver-controller/d: 2026-01-01T00:00:02.000Z I b: two
driver/d: 2026-01-01T00:00:03.000Z I a: three
"""


@pytest.fixture
def directory(tmp_path):
    """A cluster's record, and the logs of a driver and its controller."""
    directory = StateDir(tmp_path)
    state = State(runtime_config={})
    for kind, text in (("driver", PLUGINS), ("driver-controller", CONTROLLER), ("scheduler", "")):
        name = f"{kind}/d" if text else kind
        state.processes[name] = Process(name, kind, "1.29", {}, 1)
        if text:
            directory.log(name).parent.mkdir(parents=True, exist_ok=True)
            directory.log(name).write_text(text)
    directory.save(state)
    return directory


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("driver-plugin/d", PLUGINS),
        ("driver-controller/d", CONTROLLER),
        ("driver/d", BOTH),
    ],
)
def test_a_driver_has_the_lines_of_both_its_processes(directory, name, printed):
    """The lines of both come in the order of their times, each with its process; one log is as it is."""
    result = CliRunner().invoke(logs, [name], obj=directory.path)
    assert (result.exit_code, result.output) == (0, printed)


def test_logs_that_are_not_there_are_reported(directory):
    """A component that is not there, or has written nothing yet, is an error that says so."""
    missing = CliRunner().invoke(logs, ["driver-plugins/d"], obj=directory.path)
    assert "there is no component driver-plugins/d" in str(missing.exception)
    assert "did you mean driver-plugin/d?" in str(missing.exception)
    silent = CliRunner().invoke(logs, ["scheduler"], obj=directory.path)
    assert "scheduler has not written a log yet" in str(silent.exception)
