"""Components that are forked are those that are executed."""

import asyncio
import ctypes
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from test_stopping import KUBECONFIG
from until import until

from kubeskew.cluster.failures import ClusterError
from kubeskew.cluster.fork_client import ForkedProcesses
from kubeskew.cluster.processes import ExecutedProcesses

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere components are executed")
SECONDS = 30
PR_SET_CHILD_SUBREAPER = 36


@pytest.fixture
def forked() -> Iterator[ForkedProcesses]:
    processes = ForkedProcesses()
    yield processes
    processes.close()


@pytest.fixture
def dependent() -> Iterator[ForkedProcesses]:
    processes = ForkedProcesses(dependent=True)
    yield processes
    processes.close()


@asynccontextmanager
async def scheduler(processes, directory: Path, name: str = "log"):
    """Gives pid, birth and log of a scheduler that finds no server."""
    kubeconfig = directory / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG % 1)
    log = directory / name
    arguments = ["scheduler", "--kubeconfig", str(kubeconfig)]
    pid, born = await processes.start(arguments, log, {"KUBESKEW_TEST": "set"})
    try:
        await until(lambda: "serving health" in log.read_text(), SECONDS, every=0.02)
        yield pid, born, log
    finally:
        await processes.stop(pid, born, kill=True)


def surroundings(pid: int) -> dict[str, object]:
    """Returns what the kernel says of a process, without what differs between any two."""
    status = Path(f"/proc/{pid}/status").read_text()
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    links = [str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir()]
    return {
        **{name: fields[name] for name in ("Umask", "SigBlk", "SigIgn", "SigCgt", "Threads", "Seccomp")},
        "descriptors": sorted(re.sub(r"\d+|/log-\w+", "", link) for link in links),
        "arguments": re.sub(r"[\0 ]+", " ", Path(f"/proc/{pid}/cmdline").read_text()).strip(),
        "directory": Path(f"/proc/{pid}/cwd").readlink(),
        "leads its session": os.getsid(pid) == pid,
        "leads its group": os.getpgid(pid) == pid,
        "environment": sorted(Path(f"/proc/{pid}/environ").read_text().split("\0")),
        "limits": Path(f"/proc/{pid}/limits").read_text(),
    }


async def test_a_forked_component_has_the_surroundings_of_an_executed_one(forked, tmp_path):
    """Session, arguments, environment, umask, signals, threads, descriptors, limits are the same."""
    async with (
        scheduler(forked, tmp_path, "log-forked") as (pid, _, _),
        scheduler(ExecutedProcesses(), tmp_path, "log-executed") as (other, _, _),
    ):
        pairs: list[tuple[dict[str, object], dict[str, object]]] = []

        def alike() -> bool:
            pairs.append((surroundings(pid), surroundings(other)))
            return pairs[-1][0] == pairs[-1][1]

        with suppress(TimeoutError):  # each tries now and then to connect, with one socket more
            await until(alike, SECONDS, every=0.02)
        first, second = pairs[-1]
        assert first == second
        assert "-m kubeskew scheduler --kubeconfig" in first["arguments"]


@pytest.fixture
def reaper() -> Iterator[None]:
    """Orphans below this process become its children."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    yield
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 0)


def threads_of(pid: int) -> int:
    return len([*Path(f"/proc/{pid}/task").iterdir()])


def exit_code(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 0), (signal.SIGKILL, -signal.SIGKILL)]
)
async def test_a_forked_component_outlives_its_server_and_ends_as_asked(
    forked, reaper, tmp_path, number, code
):
    """A forked component runs on without the fork server, stops in order on a signal, and exits with its own
    code.
    """
    async with scheduler(forked, tmp_path) as (pid, born, log):
        forked.close()
        assert forked.alive(pid, born)

        os.kill(pid, number)

        assert await asyncio.to_thread(exit_code, pid) == code
        assert ("shutting down" in log.read_text()) == (code == 0)


async def test_a_dependent_component_stops_with_its_server(dependent, reaper, tmp_path):
    """Nothing of a matrix runs on when it was killed: its fork servers end, and components stop in order."""
    async with scheduler(dependent, tmp_path) as (pid, _, log):
        dependent.close()

        assert await asyncio.to_thread(exit_code, pid) == 0
        assert "shutting down" in log.read_text()


async def test_a_start_that_is_cancelled_leaves_no_process(forked, tmp_path):
    """A process of which nobody would know is ended, and the next start gets an answer of its own."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):  # importing takes longer
            await forked.start(["scheduler", "--help"], tmp_path / "first", {})
    async with scheduler(forked, tmp_path, "second") as (pid, born, _):
        assert forked.alive(pid, born)


async def test_what_a_forked_component_says_of_wrong_usage_is_in_its_log(forked, tmp_path):
    """A component that ends at once has reported why."""
    log = tmp_path / "log"
    pid, born = await forked.start(["scheduler", "--emulated-version", "1.99"], log, {})
    await until(lambda: not forked.alive(pid, born), SECONDS, every=0.02)

    assert "kubeskew scheduler --help" in log.read_text()


async def test_fork_servers_import_every_kind_and_start_no_thread(forked, tmp_path):
    """Any component can be forked, and of threads, which a child would not have, there is none."""
    for kind in ("apiserver", "controller-manager", "scheduler", "kubelet", "driver"):
        log = tmp_path / kind
        pid, born = await forked.start([kind, "--help"], log, {})
        await until(lambda pid=pid, born=born: not forked.alive(pid, born), SECONDS, every=0.02)
        assert f"kubeskew {kind} [OPTIONS]" in log.read_text()

    servers = {server._process.pid for server in forked._servers.values()}
    assert [threads_of(pid) for pid in servers] == [1, 1]


async def test_the_environment_is_that_of_the_start(forked, tmp_path, monkeypatch):
    """Each has the environment that its start gives, not the one before it, however large it is."""
    monkeypatch.delenv("KUBESKEW_STATE_DIR", raising=False)
    for number in range(4):
        monkeypatch.setenv(f"LARGE_{number}", "x" * 60_000)
    forked.prepare(["scheduler"], {})
    server = forked._servers["scheduler"]
    for environment, directory in (({"KUBESKEW_STATE_DIR": "/nowhere"}, "/nowhere"), ({}, ".kubeskew")):
        log = tmp_path / "log"
        pid, born = await server.fork(["status"], log, environment, dependent=False)
        await until(lambda pid=pid, born=born: not forked.alive(pid, born), SECONDS, every=0.02)
        assert f"{directory}; start one with" in log.read_text()
        log.unlink()


async def test_a_fork_server_that_was_killed_is_replaced(forked, tmp_path):
    """The start that finds it dead fails with a reason at most once; the next has a new one."""
    async with scheduler(forked, tmp_path):
        (server,) = {other._process for other in forked._servers.values()}
        server.kill()
        server.wait()
        async with scheduler(forked, tmp_path, "second") as (pid, born, _):
            assert forked.alive(pid, born)


async def test_a_fork_server_that_ends_over_a_request_is_reported(forked, tmp_path):
    """A request that nobody answers is an error of the cluster."""
    forked.prepare(["scheduler"], {})
    (server,) = {other._process for other in forked._servers.values()}
    server.send_signal(signal.SIGSTOP)
    asyncio.get_running_loop().call_later(0.05, server.kill)
    with pytest.raises(ClusterError, match="cannot start scheduler: the process that forks"):
        await forked.start(["scheduler"], tmp_path / "log", {})


ABANDONED = """
import os, signal
from kubeskew.cluster.fork_client import ForkedProcesses
processes = ForkedProcesses()
processes.prepare(["apiserver"], {})
print(*{server._process.pid for server in processes._servers.values()}, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_fork_server_ends_with_a_command_that_was_killed():
    """No server stays behind when its command could not end it."""
    command = subprocess.run([sys.executable, "-c", ABANDONED], capture_output=True, text=True)

    with suppress(ProcessLookupError):
        server = os.pidfd_open(int(command.stdout))
        assert select.select([server], [], [], SECONDS)[0]
        os.close(server)
