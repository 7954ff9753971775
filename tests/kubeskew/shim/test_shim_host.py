"""A program in a component's slot: its start, its readiness, its end, and what its end does to others."""

import asyncio
import json
import os
import signal
import stat
import sys
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from until import until

from kubeskew.apimachinery.client.kubeconfig import Kubeconfig, load_kubeconfig
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.clock import SeededEntropy, SystemClock
from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.faults.journal import PLAN
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.process.component import ComponentContext, ComponentOptions
from kubeskew.apimachinery.process.health_checks import Health
from kubeskew.apimachinery.versions import Version
from kubeskew.cli.main import main as kubeskew
from kubeskew.shim import host
from kubeskew.shim.host import kubeconfig_for
from kubeskew.shim.program_file import ProgramFileError, read_program
from kubeskew.shim.programs import Programs
from kubeskew.shim.supervision import ProgramEndedError

VERSION = Version(36)
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"


def is_running(pid):
    """A process that nobody has waited for yet has ended all the same."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def pids_of(program):
    """The processes of the program, by their arguments."""
    found = Path("/proc").glob("[0-9]*/cmdline")
    return [file.parent.name for file in found if str(program) in read_if_there(file)]


def read_if_there(file):
    try:
        return file.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


class Shim:
    """A shim of this process; `begin` starts it with processes of the fake program, by their modes."""

    def __init__(self, files, upstream, directory, port):
        self._files, self._upstream, self.directory, self._port = files, upstream, directory, port
        self.program = directory / "kube-scheduler"
        source = Path(__file__).with_name("fake_program.py").read_text()
        self.program.write_text(f"#!{sys.executable} -IS\n{source}")
        self.program.chmod(0o700)
        pair = files.client
        self.config = Kubeconfig(
            upstream.url, ca=files.ca.read_bytes(), certificate=pair.certificate, key=pair.key
        )
        self.kubeconfig = directory / "own.kubeconfig"
        self.kubeconfig.write_text(kubeconfig_for(self.config, upstream.url, self.config.ca))
        self.stop = asyncio.Event()
        self.task = None

    def write(self, *modes, lease="", health=False):
        """The program file."""
        kubeconfig = self.directory / "programs" / "scheduler.kubeconfig"
        serving = [str(self._port), str(self._files.certificate), str(self._files.key)]
        body = {
            "path": str(self.program),
            "version": "v1.36.3",
            "lease": lease,
            "health": f"https://127.0.0.1:{self._port}" if health else "",
            "kubeconfig": str(kubeconfig),
            "tlsCertFile": str(self._files.certificate),
            "tlsPrivateKeyFile": str(self._files.key),
            "clientCAFile": str(self._files.ca),
            "processes": [
                {
                    "name": f"node-{at}" if at else "",
                    "args": [mode, str(kubeconfig), *serving],
                    "env": {"A": "b"},
                }
                for at, mode in enumerate(modes)
            ],
        }
        file = self.directory / "program.json"
        file.write_text(json.dumps(body))
        return file

    async def begin(self, *modes, **keys):
        program = read_program(self.write(*modes, **keys))
        self.programs = Programs(program)
        environment = Environment(VERSION, FeatureGates(VERSION, {}), SystemClock(), SeededEntropy(1))
        self.health = Health(CollectorRegistry(), VERSION)
        options = ComponentOptions(self.kubeconfig, VERSION, environment.gates, "127.0.0.1", 0, False, 0)
        self.client = APIClient.from_kubeconfig(self.kubeconfig, "x", clock=environment.clock)
        context = ComponentContext(
            "scheduler", environment, self.client, self.health, self.stop, options, "x"
        )
        self.task = asyncio.create_task(host.main(program, self.programs, context))
        await asyncio.sleep(0)

    async def until_started(self):
        """The program has done what it does at first."""
        await until(lambda: self.task.done() or self.programs.running, 10)

    async def end(self):
        if self.task is not None:
            self.stop.set()
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
            await self.client.close()

    def command(self, *modes, faults=()):
        """The same as a command."""
        directory = self.directory / "faults"
        directory.mkdir()
        entries = [{"set": 1, "fault": {"component": "scheduler", "id": "f", **fault}} for fault in faults]
        (directory / PLAN).write_text(json.dumps({"revision": 1, "faults": entries}))
        return [
            "shim",
            *("--component", "scheduler", "--kubeconfig", str(self.kubeconfig)),
            *("--faults-dir", str(directory), "--program-file", str(self.write(*modes))),
        ]


@pytest.fixture
async def shim(files, upstream, tmp_path, ports):
    made = Shim(files, upstream, tmp_path, ports.choose(()))
    yield made
    await made.end()


async def test_a_program_is_ready_once_it_works(shim, upstream, capfd, monkeypatch):
    """Missing are, one after another, its health, its lease, and its lists and watches; then nothing. Its
    output is the shim's, and its environment has what the file adds."""
    monkeypatch.setenv("SSL_CERT_FILE", os.devnull)
    await shim.begin("health,lead,list", lease="kube-system/kube-scheduler", health=True)
    names = [check.name for check in shim.health.checks]
    await until(lambda: shim.health.failing() == [], 10)

    assert names == ["program", "health", "leading", "informers"]
    page = shim.health.pages["/program"]()
    assert (page["path"], page["version"]) == (str(shim.program), "v1.36.3")
    assert is_running(page["pids"][""])
    assert (await shim.client.request("GET", LEASE))["spec"]["holderIdentity"] == "me"
    kubeconfig = shim.directory / "programs" / "scheduler.kubeconfig"
    assert load_kubeconfig(kubeconfig).server == page["proxy"]
    assert stat.S_IMODE(kubeconfig.stat().st_mode) == 0o600
    assert capfd.readouterr().out == "begins with b None\nwaits\n"


async def test_a_lease_is_given_back(shim):
    """After the graceful end of a program that led, the lease has no holder, as after client-go's release."""
    await shim.begin("lead", lease="kube-system/kube-scheduler")
    await until(lambda: not any("leading" in each for each in shim.health.failing()), 10)
    shim.stop.set()
    await shim.task
    spec = (await shim.client.request("GET", LEASE))["spec"]

    assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("", 1, 4)
    assert {*spec} >= {"acquireTime", "renewTime"}


async def test_a_lease_that_another_has_is_left_alone(shim):
    """A lease that went to another holder stays with it."""
    await shim.begin("lead", lease="kube-system/kube-scheduler")
    await until(lambda: not any("leading" in each for each in shim.health.failing()), 10)
    lease = await shim.client.request("GET", LEASE)
    lease["spec"]["holderIdentity"] = "other"
    await shim.client.request("PUT", LEASE, body=lease)
    shim.stop.set()
    await shim.task

    assert (await shim.client.request("GET", LEASE))["spec"]["holderIdentity"] == "other"


async def test_a_program_that_does_not_lead_is_not_ready(shim):
    """The missing part has the words that the cluster knows."""
    await shim.begin("list", lease="kube-system/kube-scheduler")
    await shim.until_started()

    assert "leading: not leading" in shim.health.failing()


@pytest.mark.parametrize(
    ("modes", "detail"),
    [(["exit"], "exit status 3"), (["suicide"], "signal 9"), (["", "exit"], "node-1: exit status 3")],
)
async def test_a_program_that_ends_by_itself(shim, upstream, modes, detail):
    """An end before it was ready is a failure on the time line; its other processes and the shim end, too."""
    await shim.begin(*modes)
    with pytest.raises(ProgramEndedError, match=detail) as raised:
        await shim.task

    assert raised.value.exit_code == 1
    assert [(each["what"], each["detail"]) for each in upstream.announced] == [("failed", detail)]
    assert not any(map(is_running, shim.programs.pids.values()))


@pytest.mark.parametrize(
    ("content", "mode", "reason"),
    [
        (b"\x7fELF no program of this machine", 0o700, "Exec format error"),
        (b"#!/bin/sh\n", 0o600, "Permission denied"),
        (None, 0, "No such file or directory"),
    ],
)
async def test_a_program_that_cannot_be_run(shim, content, mode, reason):
    """One line says why; nothing stays."""
    shim.program.unlink()
    if content is not None:
        shim.program.write_bytes(content)
        shim.program.chmod(mode)
    await shim.begin("")
    with pytest.raises(ProgramEndedError, match=f"cannot run {shim.program}: {reason}"):
        await shim.task


async def test_a_program_that_does_not_end_is_killed(shim, capfd):
    """SIGTERM is ignored; once the time is over the program is gone, and its lease is not given back."""
    await shim.begin("stubborn,lead", lease="kube-system/kube-scheduler")
    await until(lambda: not any("leading" in each for each in shim.health.failing()), 10)
    pid = shim.programs.pids[""]
    shim.stop.set()
    done, _ = await asyncio.wait({shim.task}, timeout=0.1)
    assert (done, is_running(pid)) == (set(), True)
    shim.task.cancel()
    await asyncio.gather(shim.task, return_exceptions=True)
    await until(lambda: not is_running(pid), 5)

    assert (await shim.client.request("GET", LEASE))["spec"]["holderIdentity"] == "me"


@pytest.mark.parametrize("end", ["stop", "by itself"])
async def test_a_wrapper_need_not_exec_its_program(shim, end):
    """The program ends with its wrapper, whether that is stopped or ends by itself."""
    inner = shim.program.rename(shim.directory / "inner")
    shim.program.write_text(f'#!/bin/sh\n{inner} "$@"\nexit 3\n')
    shim.program.chmod(0o700)
    await shim.begin("")
    await until(lambda: "" in shim.programs.pids and any(map(is_running, pids_of(inner))), 10)
    if end == "stop":
        shim.stop.set()
    else:
        os.kill(shim.programs.pids[""], signal.SIGKILL)
    await asyncio.wait({shim.task}, timeout=10)

    await until(lambda: not any(map(is_running, pids_of(inner))), 5)


async def test_a_program_starts_again_once_there_is_a_server(shim, upstream):
    """Without an API server, a program that has ended is not started: it would only end once more."""
    await shim.begin("list")
    await until(lambda: shim.health.failing() == [], 10)
    first = shim.programs.pids[""]
    upstream.ready = False
    os.kill(first, signal.SIGKILL)
    asked = upstream.readiness_asked
    await until(lambda: upstream.readiness_asked > asked + 2, 10)
    assert shim.programs.pids[""] == first

    upstream.ready = True
    await until(lambda: shim.programs.pids[""] != first, 10)


async def test_a_program_that_cannot_be_started_again(shim):
    """A build that is gone meanwhile is one line, too."""
    await shim.begin("list")
    await until(lambda: shim.health.failing() == [], 10)
    shim.program.unlink()
    os.kill(shim.programs.pids[""], signal.SIGKILL)

    with pytest.raises(ProgramEndedError, match=f"cannot run {shim.program}: No such file or directory"):
        await shim.task


# -- as a command


async def run(shim, *modes, faults=()):
    """Starts the command; the second one is the program's pid, once it waits or has ended."""
    log = shim.directory / "log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "kubeskew", *shim.command(*modes, faults=faults)),
            stdout=output,
            stderr=output,
            env={**os.environ, "SSL_CERT_FILE": os.devnull, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    def started():
        line = next((line for line in log.read_text().splitlines() if "as process" in line), "")
        return process.returncode is not None or ("waits" in log.read_text() and int(line.split()[-1]))

    return process, await until(started, 20), log


def announced(upstream):
    return [(each["what"], each.get("detail", "")) for each in upstream.announced]


async def test_sigterm_ends_both(shim, upstream):
    """Start and stop are announced, the start with the program; it does not see variables that are kubeskew's
    own."""
    process, pid, log = await run(shim, "")
    process.send_signal(signal.SIGTERM)

    assert await process.wait() == 0
    assert announced(upstream) == [("started", f"kube-scheduler v1.36.3, {shim.program}"), ("stopped", "")]
    assert not is_running(pid)
    assert "begins with b None" in log.read_text()


async def test_sigkill_ends_both(shim):
    """The program does not outlive its shim."""
    process, pid, _ = await run(shim, "stubborn")
    process.kill()
    await process.wait()
    await until(lambda: not is_running(pid), 5)


async def test_a_crash_ends_both(shim, upstream):
    """At the call that was chosen, the program dies with its shim; the call is not made, and the crash is on
    the time line."""
    fault = {"verb": "create", "resource": "configmaps", "crash": "before"}
    process, _, _ = await run(shim, "create", faults=[fault])

    assert await process.wait() == -signal.SIGKILL
    detail = "f: crash before: create configmaps ns/a (call 1)"
    assert announced(upstream)[1:] == [("fault-fired", detail), ("crashed", detail)]
    assert [call for call in upstream.calls() if "configmaps" in call] == []
    await until(lambda: not any(map(is_running, pids_of(shim.program))), 5)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{", "is not JSON"),
        (b"{}", "has no path"),
        (b"[]", "is not what it should be"),
        (None, "No such file or directory"),
    ],
)
def test_a_file_that_cannot_be_used(tmp_path, content, reason, capsys):
    """One line says what is wrong with the file; the status is that of wrong usage."""
    file = tmp_path / "program.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ProgramFileError, match=reason):
        read_program(file)
    with pytest.raises(SystemExit) as ended:
        kubeskew(["shim", "--component", "scheduler", "--kubeconfig", "k", "--program-file", str(file)])
    assert (ended.value.code, capsys.readouterr().err.count("\n")) == (2, 1)
