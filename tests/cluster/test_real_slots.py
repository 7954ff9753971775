"""Real programs in a cluster's slots, with stand-ins for upstream's: what commands show and do of them."""

import json
import os
import signal
from pathlib import Path

import pytest
from asking import Local, eventually, runs
from real_programs import write_program, write_scheduler

pytestmark = pytest.mark.cluster


@pytest.fixture
def local(tmp_path: Path):
    local = Local(tmp_path / "state")
    yield local
    if (local.state / "state.json").exists():
        local.run("down", "--purge")


@pytest.fixture(scope="module")
def binaries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with schedulers of two minors."""
    folder = tmp_path_factory.mktemp("binaries")
    for minor, version in (("1.35", "v1.35.4"), ("1.36", "v1.36.3")):
        write_scheduler(folder / minor / "kube-scheduler", version, minor)
    return folder


def pod(name: str):
    spec = {"containers": [{"name": "c", "image": "i"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def is_scheduled(local: Local, name: str) -> bool:
    found = local.get(f"/api/v1/namespaces/default/pods/{name}")
    return bool(found["spec"].get("nodeName"))


def program_of(local: Local) -> str:
    return local.components()["scheduler"]["program"] or ""


def test_a_scheduler_is_real_emulated_and_real_again(local: Local, binaries: Path):
    """The flags of `up` stay with the cluster: each version has the program of its folder, none where there
    is none, and pods are scheduled all the time; the time line names the programs.
    """
    up = local.run(
        "up", "--nodes", "1", "--binaries", str(binaries), "--real", "scheduler,controller-manager"
    )
    manager = binaries / "1.36" / "kube-controller-manager"
    assert f"controller-manager 1.36 stays emulated: there is no {manager}" in up.stderr
    assert "starting scheduler 1.36 (kube-scheduler v1.36.3)" in up.stderr
    assert program_of(local) == "kube-scheduler v1.36.3"
    local.create("/api/v1/namespaces/default/pods", pod("a"))
    eventually(lambda: is_scheduled(local, "a"))

    down = local.run("downgrade", "--to", "1.35")
    assert "scheduler: 1.36 → 1.35 (kube-scheduler v1.35.4)" in down.stderr
    local.create("/api/v1/namespaces/default/pods", pod("b"))
    eventually(lambda: is_scheduled(local, "b"))

    emulated = local.run("downgrade", "--to", "1.34")
    missing = binaries / "1.34" / "kube-scheduler"
    plan = emulated.stderr.splitlines()
    assert f"· scheduler 1.34 stays emulated: there is no {missing}" in plan
    assert plan.index(f"· scheduler 1.34 stays emulated: there is no {missing}") < min(
        number for number, line in enumerate(plan) if "→" in line
    )
    assert program_of(local) == ""
    local.run("upgrade", "--to", "1.35")
    assert program_of(local) == "kube-scheduler v1.35.4"

    local.run("restart", "scheduler", "--real", "none")
    assert program_of(local) == ""
    details = [event["by"] for event in local.events() if event["object"] == "component scheduler"]
    paths = [str(binaries / minor / "kube-scheduler") for minor in ("1.36", "1.35")]
    started = [
        detail for detail in details if "kube-scheduler" in detail
    ]  # the stand-in announces itself, too
    assert started[:2] == [
        f"scheduler 1.36: kube-scheduler v1.36.3, {paths[0]}",
        f"scheduler 1.35: kube-scheduler v1.35.4, {paths[1]}",
    ]


def test_faults_metrics_kill_and_restart_are_as_for_any_component(local: Local, binaries: Path):
    """A fault answers its calls, its metrics need a token, SIGKILL leaves nothing of it, and what ends by
    itself is started again.
    """
    local.run("up", "--nodes", "1", "--binaries", str(binaries), "--real", "scheduler")
    local.run("fault", "scheduler", "--verb", "create", "--resource", "pods/binding", "--nth", "1",
              "--answer", "409", "--id", "conflict")  # fmt: skip
    local.create("/api/v1/namespaces/default/pods", pod("a"))
    (fault,) = json.loads(local.run("fault", "await", "conflict", "-o", "json").stdout)
    assert fault["fired"] == 1
    eventually(lambda: is_scheduled(local, "a"))

    process = next(each for each in local.record()["processes"] if each["name"] == "scheduler")
    pids = json.loads(local.run("status", "-o", "json").stdout)["components"]
    assert next(c for c in pids if c["component"] == "scheduler")["metrics"].startswith("https://")
    shim, (program,) = process["pid"], children(process["pid"])
    os.kill(program, signal.SIGKILL)
    eventually(lambda: any(pid != program for pid in children(shim)))
    assert ("scheduler", "ended") in local.timeline()

    (program,) = children(shim)
    local.run("kill", "scheduler")
    eventually(lambda: not runs(shim) and not runs(program))
    assert local.states()["scheduler"] == "Killed"


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(each) for each in found if runs(int(each))]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (
            "print('Error: no such thing', flush=True)\nraise SystemExit(1)",
            "ended while starting: Error: no such",
        ),
        ("raise SystemExit(0)", "ended while starting: exit status 0"),
    ],
)
def test_a_program_that_ends_at_once_leaves_nothing(local: Local, tmp_path: Path, body: str, text: str):
    """One line, exit 2, and neither processes nor a cluster, so that the next `up` can begin."""
    write_program(tmp_path / "1.36" / "kube-scheduler", "v1.36.3", body)

    refused = local.run("up", "--nodes", "0", "--binaries", str(tmp_path), "--real", "scheduler", code=2)

    (line,) = [line for line in refused.stderr.splitlines() if line.startswith("kubeskew: ")]
    assert text in line
    assert not (local.state / "state.json").exists()
    assert not [entry for entry in local.state.iterdir() if entry.name not in (".gitignore", "lock")]


def test_a_program_that_cannot_be_picked_up_stops_nothing_else(local: Local, tmp_path: Path):
    """`up` ends what it started itself; what ran before goes on."""
    program = tmp_path / "1.36" / "kube-scheduler"
    write_scheduler(program, "v1.36.3", "1.36")
    local.run("up", "--nodes", "0", "--binaries", str(tmp_path), "--real", "scheduler")
    process = next(each for each in local.record()["processes"] if each["name"] == "scheduler")
    os.kill(process["pid"], signal.SIGTERM)
    eventually(lambda: not runs(process["pid"]))
    write_program(program, "v1.36.3", "raise SystemExit(1)")

    refused = local.run("up", code=2)

    assert f"kubeskew: {program} ended while starting: exit status 1; see " in refused.stderr
    states = local.states()
    assert (states["apiserver"], states["controller-manager"]) == ("Ready", "Ready")
    assert states["scheduler"] != "Ready"
    local.run("restart", "scheduler", "--real", "none")
    assert local.states()["scheduler"] == "Ready"
