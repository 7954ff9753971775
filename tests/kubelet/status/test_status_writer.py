"""The status manager's writes, in virtual time: when a phase becomes final, and when a pod's object goes."""

import asyncio

import pytest
from loop_clock import LoopClock

from kubeskew.kubelet.status.status_manager import StatusWriter

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]
OWNED = ("phase", "reason", "message", "conditions", "containerStatuses")
ENDED = {
    "phase": "Failed",
    "reason": "Evicted",
    "message": "too much",
    "conditions": [
        {"type": "Ready", "status": "False"},
        {"type": "DisruptionTarget", "status": "True"},
    ],
    "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 0}}}],
}


class Server:
    """Keeps one pod as an API server does, and notes what is written when."""

    def __init__(self):
        self.pod = {
            "metadata": {"uid": "u", "name": "p", "namespace": "d"},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        }
        self.writes = []

    async def patch(self, _ref, _name, _namespace, body, _kind, *, subresource):
        assert subresource == "status"
        changes = body["status"]
        kept = {name: value for name, value in changes.items() if not name.startswith("$")}
        self.writes.append((asyncio.get_running_loop().time(), kept))
        status = self.pod["status"]
        conditions = {
            each["type"]: each for each in (*status.get("conditions", ()), *kept.get("conditions", ()))
        }
        self.pod = {**self.pod, "status": {**status, **kept, "conditions": [*conditions.values()]}}
        return self.pod

    async def delete(self, _ref, _name, _namespace, **_options):
        self.writes.append((asyncio.get_running_loop().time(), "delete"))


@pytest.fixture
def server():
    return Server()


async def written(server, users, until):
    """Gives the writer the pod's last status, and its end, at once; claims go from `users` when they end."""
    writer = StatusWriter(server, LoopClock(), OWNED, users.__contains__)
    syncing = asyncio.create_task(writer.run())
    writer.put(server.pod, ENDED)
    writer.finish(server.pod)
    await asyncio.sleep(until)
    users.clear()
    await asyncio.sleep(20)
    syncing.cancel()
    await writer.close()


async def test_a_pod_without_claims_ends_at_once(server):
    """Phase and deletion follow each other where the pod uses no claim any more."""
    await written(server, set(), 1)
    assert [(at, what if what == "delete" else what["phase"]) for at, what in server.writes] == [
        (0, "Failed"),
        (0, "delete"),
    ]


async def test_a_pod_that_uses_a_claim_keeps_its_phase(server):
    """The containers' end is told at once; phase, reason, message and DisruptionTarget come with the first
    sync, each 10 s, after the claim was given back, and the deletion with them."""
    await written(server, {"u"}, 61)
    (first, told), (second, final), (third, deleted) = server.writes
    assert (first, told.keys()) == (0, {"conditions", "containerStatuses"})
    assert [each["type"] for each in told["conditions"]] == ["Ready"]
    assert (second, third, deleted) == (70, 70, "delete")
    assert {name: final[name] for name in ("phase", "reason", "message")} == {
        "phase": "Failed",
        "reason": "Evicted",
        "message": "too much",
    }
    assert [each["type"] for each in final["conditions"]] == ["DisruptionTarget"]


async def test_a_pod_that_had_ended_before_is_not_held_back(server):
    """Only a phase that becomes final waits: an ended pod's object goes though a claim still counts it."""
    server.pod["status"] = {"phase": "Failed"}
    await written(server, {"u"}, 1)
    assert [what for _, what in server.writes][-1] == "delete"
    assert server.writes[-1][0] == 0
