"""Waiting for components is given up in time."""

from types import SimpleNamespace

import pytest

from kubeskew.cluster import config, creation, readiness
from kubeskew.cluster.failures import ClusterError
from kubeskew.cluster.probes import Probes
from kubeskew.cluster.state import Process, StateDir


async def test_nobody_waits_for_a_kubelet_that_gave_up(tmp_path, ports):
    """The reason of a kubelet that gave up is reported at once, regardless of what else the process lacks."""
    state = creation.plan(config.parse({"nodes": [{"name": "n1"}, {"name": "n2"}]}, "test"), ports)

    async def missing(*_):
        return "nodes not ready: n1, n2"

    async def hosted(_process):
        return {"n1": {"ready": False, "error": "checkpoint is corrupted"}, "n2": {"ready": False}}

    def server_of(state, _component=""):
        return state.of_kind("apiserver")[0]

    probes = SimpleNamespace(missing=missing, hosted=hosted, alive=lambda _process: True, server_of=server_of)
    with pytest.raises(ClusterError, match=r"^the kubelet of n1 does not run: checkpoint is corrupted\nSee"):
        await readiness.wait_ready(StateDir(tmp_path), probes, state, state.of_kind("kubelet"))


async def test_what_is_missing_is_one_line():
    """A component lists its failed checks in lines; errors and progress have one."""

    async def request(*_):
        return 503, "health: no answer\nleading: not leading"

    probes = Probes(SimpleNamespace(request=request), SimpleNamespace())
    process = Process("scheduler", "scheduler", "1.36", {})

    assert await probes.missing(process) == "health: no answer; leading: not leading"
