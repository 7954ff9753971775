"""The calls of our kubelet to a real container runtime, held against recordings without that runtime."""

import importlib.util
import json
from pathlib import Path

import pytest

from kubeskew.apimachinery.clock import SystemClock

ROOT = Path(__file__).parents[3]
RECORDED = ROOT / "tests" / "data" / "container-runtimes"


def recorder():
    file = ROOT / "hack" / "recordings" / "container_runtime_calls.py"
    spec = importlib.util.spec_from_file_location("container_runtime_calls", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", sorted(path.name for path in RECORDED.glob("*.jsonl")))
async def test_a_pod_comes_and_goes(tmp_path, name):
    """Each request is the one that the runtime has accepted, and its answers are understood as they were."""
    recordings = recorder()
    *calls, last = map(json.loads, (RECORDED / name).read_text().splitlines())
    player = recordings.Player(calls, recordings.Texts(tmp_path))
    runtime = recordings.runtime_at(tmp_path, player, SystemClock())
    found = await recordings.session(runtime, tmp_path)
    assert found == last["results"]
    assert {call["verb"] for call in calls} >= {
        "RunPodSandbox",
        "StartContainer",
        "ExecSync",
        "StopContainer",
    }


async def test_another_request_is_noticed(tmp_path):
    """A call that was not recorded so fails the session."""
    recordings = recorder()
    [name, *_] = sorted(RECORDED.glob("*.jsonl"))
    *calls, _ = map(json.loads, name.read_text().splitlines())
    asked = next(call for call in calls if call["verb"] == "CreateContainer")
    asked["request"]["config"]["log_path"] = "elsewhere"
    player = recordings.Player(calls, recordings.Texts(tmp_path))
    runtime = recordings.runtime_at(tmp_path, player, SystemClock())
    with pytest.raises(AssertionError, match=r"^asked \{'verb': 'CreateContainer'"):
        await recordings.session(runtime, tmp_path)
