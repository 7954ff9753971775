"""Real programs are asked for their version, flags and gates; what cannot be used is refused in one line."""

import subprocess
import time
from pathlib import Path

import pytest
from real_programs import write_program
from until import until

from kubeskew.cluster.failures import UserError
from kubeskew.cluster.programs.inspection import inspect


@pytest.mark.parametrize(
    ("version", "minor", "patch"),
    [
        ("v1.36.3", 36, 3),
        ("v1.37.0-alpha.1.55+0123456789abcd-dirty", 37, 0),
        ("v0.0.0-master+$Format:%H$", None, 0),
    ],
)
def test_a_program_reports_its_version(tmp_path, version, minor, patch):
    """The version is what the program prints; a build without a stamp has no minor."""
    program = inspect(write_program(tmp_path / "kube-scheduler", version))

    assert (program.version, program.minor, program.patch) == (version, minor, patch)


def test_the_help_has_flags_and_gates(tmp_path):
    """Flags and gates are those of the program's own help, with the gates' stages."""
    program = inspect(write_program(tmp_path / "kube-scheduler"))

    assert program.flags == {"kubeconfig", "kube-api-qps", "leader-elect", "feature-gates", "v"}
    assert program.gates == {"AllAlpha": "Alpha", "DRAExtendedResource": "Beta", "MyOwnGate": "Alpha"}


def test_gates_without_a_prefix_are_read_too(tmp_path):
    """Releases before the prefix `kube:` list their gates by the bare name."""
    gate = "    APIServerIdentity=true|false (BETA - default=true)"
    usage = f"      --feature-gates mapStringBool   Options are:\n{gate}"
    program = inspect(write_program(tmp_path / "kube-scheduler", "v1.31.14", usage=usage))

    assert program.gates == {"APIServerIdentity": "Beta"}


def test_a_program_that_was_built_again_is_asked_again(tmp_path):
    """Answers are kept only as long as the file stays the same."""
    path = write_program(tmp_path / "kube-scheduler", "v1.36.3")
    assert inspect(path).version == "v1.36.3"
    path.unlink()

    assert inspect(write_program(path, "v1.36.30")).version == "v1.36.30"


def not_executable(path):
    write_program(path).chmod(0o644)


def of_another_architecture(path):
    path.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\xf7\x00" + bytes(100))
    path.chmod(0o755)


def failing(path):
    path.write_text("#!/bin/sh\necho starting\necho boom >&2\nexit 3\n")
    path.chmod(0o755)


def of_something_else(path):
    path.write_text("#!/bin/sh\necho etcd Version: 3.5.9\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("write", "text"),
    [
        (lambda path: None, r"there is no program .*: No such file or directory"),
        (lambda path: path.mkdir(), r"is no program, but a directory"),
        (not_executable, r"cannot be executed: make it so with `chmod \+x "),
        (of_another_architecture, r"cannot be executed: Exec format error: it is of another architecture"),
        (failing, r"--version fails \(exit status 3\): boom"),
        (of_something_else, r"is no program of Kubernetes: for --version it prints etcd Version: 3\.5\.9"),
    ],
)
def test_what_is_no_program_is_refused_in_one_line(tmp_path, write, text):
    """The line names the file and the reason."""
    path = tmp_path / "kube-scheduler"
    write(path)

    with pytest.raises(UserError, match=text) as refused:
        inspect(path)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


async def test_a_program_that_does_not_end_is_killed_with_what_it_started(tmp_path, monkeypatch):
    """Nothing of it is left running."""
    path, pids = tmp_path / "kube-scheduler", tmp_path / "pids"
    path.write_text(f"#!/bin/sh\nsleep 1000 &\necho $! >>{pids}\nwait\n")
    path.chmod(0o755)

    def wait_in_vain(process, timeout):
        while not (pids.exists() and len(pids.read_text().splitlines()) == 2):  # of --version and --help
            assert process.poll() is None
            time.sleep(0.005)
        raise subprocess.TimeoutExpired(process.args, timeout)

    monkeypatch.setattr(subprocess.Popen, "communicate", wait_in_vain)
    with pytest.raises(UserError, match=r"--version does not end: it ran for 20 s"):
        inspect(path)
    await until(lambda: not any(run_by(pid) == "sleep" for pid in pids.read_text().split()), 30)


def run_by(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    name, _, fields = state.partition("(")[2].rpartition(")")
    return "" if fields.split()[0] in "ZX" else name


def test_a_driver_is_not_asked(tmp_path):
    """A driver's program need not know --version: it has only to be executable."""
    path = tmp_path / "driver"
    failing(path)

    assert inspect(path, asked=False).version == ""
