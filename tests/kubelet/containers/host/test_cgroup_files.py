"""Limits and use of containers in the files of cgroups, of both versions."""

from pathlib import Path

import pytest

from kubeskew.kubelet.containers.host import cgroups
from kubeskew.kubelet.containers.host.cgroups import Cgroups, Limits, Usage

LIMITS = Limits(memory_bytes=1 << 20, cpu_shares=1024, cpu_quota=50_000, cpu_period=100_000, processes=7)


def written(directory: Path, *files: str) -> dict[str, str]:
    return {name: (directory / name).read_text() for name in files}


def make(directory: Path, **files: str) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (directory / name.replace("__", ".")).write_text(content)


def test_version_1(tmp_path: Path):
    """Each hierarchy has a directory for a container, below the kubelet's own place in it."""
    for hierarchy in ("memory", "cpu,cpuacct", "pids", "freezer"):
        (tmp_path / hierarchy / "session").mkdir(parents=True)
    memberships = "4:memory:/session\n3:cpu,cpuacct:/session\n2:pids:/session\n1:freezer:/session\n0::/\n"
    for hierarchy in ("memory", "cpu,cpuacct", "pids"):
        make(tmp_path / hierarchy / "session" / "node", cgroup__procs="")
    found = cgroups.find("node", tmp_path, memberships)
    assert found.controllers == ["memory", "cpu", "cpuacct", "pids"]
    make(found.directories["memory"] / "one", memory__limit_in_bytes="")
    make(found.directories["cpu"] / "one", cpu__shares="", cpu__cfs_quota_us="", cpu__cfs_period_us="")
    make(found.directories["pids"] / "one", pids__max="")
    files = found.create("one", LIMITS)
    places = [tmp_path / name / "session/node/one" for name in ("memory", "cpu,cpuacct", "pids")]
    assert files == [str(place / "cgroup.procs") for place in places]
    assert written(places[0], "memory.limit_in_bytes") == {"memory.limit_in_bytes": "1048576"}
    assert written(places[1], "cpu.shares", "cpu.cfs_quota_us") == {
        "cpu.shares": "1024",
        "cpu.cfs_quota_us": "50000",
    }
    assert written(places[2], "pids.max") == {"pids.max": "7"}
    assert found.mounts("one") == [
        (str(places[0]), "memory"),
        (str(places[1]), "cpu"),
        (str(places[1]), "cpuacct"),
        (str(places[2]), "pids"),
    ]
    assert not (tmp_path / "freezer" / "session" / "node").exists()


def test_version_2(tmp_path: Path):
    """The unified hierarchy has one directory for a container, next to the kubelet's own."""
    controls = {"cgroup__controllers": "cpu memory pids", "cgroup__subtree_control": "", "cgroup__procs": ""}
    make(tmp_path, **controls)
    make(tmp_path / "slice", **controls)
    make(tmp_path / "slice" / "node", **controls)
    found = cgroups.find("node", tmp_path, "0::/slice/session.scope\n")
    assert found.controllers == ["memory", "cpu", "pids"]
    place = tmp_path / "slice" / "node" / "one"
    make(place, memory__max="", memory__swap__max="", cpu__max="", cpu__weight="", pids__max="")
    make(place, memory__oom__group="0")
    assert found.create("one", LIMITS) == [str(place / "cgroup.procs")]
    assert written(place, "memory.oom.group") == {"memory.oom.group": "1"}
    assert written(place, "memory.max", "memory.swap.max", "cpu.max", "cpu.weight", "pids.max") == {
        "memory.max": "1048576",
        "memory.swap.max": "0",
        "cpu.max": "50000 100000",
        "cpu.weight": "39",
        "pids.max": "7",
    }
    assert found.mounts("one") == [(str(place), "")]


@pytest.mark.parametrize(("limit", "first"), [(2 << 20, "memsw.limit"), (1 << 19, "limit")])
def test_memory_is_changed_before_or_after_swap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, first: str
):
    """The limit of memory is at no moment above that of memory and swap, which the kernel refuses."""
    make(tmp_path / "one", memory__limit_in_bytes="1048576", memory__memsw__limit_in_bytes="1048576")
    changed: list[str] = []
    monkeypatch.setattr(Path, "write_text", lambda path, _text: changed.append(path.name))
    Cgroups({"memory": tmp_path}).update("one", Limits(memory_bytes=limit))
    assert changed[0] == f"memory.{first}_in_bytes"
    assert len(changed) == 2


@pytest.mark.parametrize(
    ("shares", "weight"), [(0, 1), (2, 1), (1024, 39), (262_144, 10_000), (999_999, 10_000)]
)
def test_weights(shares: int, weight: int):
    """Shares of version 1 become weights of version 2 as runc converts them."""
    assert cgroups.weight_of(shares) == weight


def test_use(tmp_path: Path):
    """The working set leaves out what can be reclaimed; a kill for want of memory is counted."""
    make(tmp_path, cgroup__controllers="")
    make(
        tmp_path / "one",
        cpu__stat="usage_usec 2500000\nuser_usec 1\n",
        memory__current="5000",
        memory__stat="anon 3000\ninactive_file 1000\n",
        memory__events="oom 1\noom_kill 2\n",
        cgroup__procs="1\n2\n",
    )
    found = Cgroups(dict.fromkeys(("memory", "cpu", "pids"), tmp_path))
    assert found.usage("one") == Usage(2.5, 4000, 3000, 2)
    assert found.out_of_memory_kills("one") == 2
    assert found.usage("two") is None


def test_without_cgroups(tmp_path: Path):
    """Nothing holds and nothing is known where no cgroup can be written."""
    found = cgroups.find("node", tmp_path, "4:memory:/session\n0::/\n")
    assert (found.controllers, found.create("one", LIMITS), found.usage("one")) == ([], [], None)
    assert found.remove("one")
