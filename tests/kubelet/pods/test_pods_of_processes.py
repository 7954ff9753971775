"""Pods whose containers are processes of this machine, from their object to their status."""

import asyncio
import json
import os
import signal

import pytest

from kubeskew.apimachinery.clock import SystemClock
from kubeskew.kubelet.containers.host.cleanup import cleanup
from kubeskew.kubelet.containers.image_entries import ImageEntry
from kubeskew.kubelet.node.config import NodeConfig

IMAGES = (("shell*", ImageEntry.of({"program": "/bin/sh"})),)


@pytest.fixture
def clock():
    return SystemClock()


@pytest.fixture
async def machine(node, tmp_path):
    """A node of real processes; skips where the kernel lets nobody make namespaces."""
    node.config = NodeConfig("node-1", capacity=node.config.capacity, runtime="host", images=IMAGES)
    await node.start()
    if "lets kubeskew make no namespaces" in node.agent.failure:
        pytest.skip(node.agent.failure)
    assert node.agent.failure == ""
    yield node
    await node.stop()
    await asyncio.to_thread(cleanup, tmp_path)


def container(name, script, **fields):
    return {"name": name, "image": "shell:1", "command": ["/bin/sh", "-c", script], **fields}


async def test_files_messages_and_ends(machine):
    """An init container's file is read by another one through a subPath, which ends as it says."""
    mounts = [{"name": "files", "mountPath": "/files", "subPath": "below"}]
    await machine.create(
        initContainers=[container("first", "echo 42 >/files/answer", volumeMounts=mounts)],
        containers=[
            container(
                "main",
                "read answer </files/answer; echo $answer; echo bye >/dev/termination-log; exit 3",
                volumeMounts=mounts,
            )
        ],
        volumes=[{"name": "files", "emptyDir": {}}],
        restartPolicy="Never",
    )
    pod = await machine.until_pod(lambda status: status.get("phase") == "Failed")
    [status] = pod["status"]["containerStatuses"]
    ended = status["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"], ended["message"]) == (3, "Error", "bye\n")
    assert status["imageID"].startswith("docker.io/library/shell@sha256:")
    [log] = (machine.root / "node-1" / "logs").glob("*/main/0.log")
    assert log.read_text().endswith(" stdout F 42\n")


async def test_a_pod_whose_processes_are_lost(machine):
    """A pod whose processes were killed with their parent gets a new sandbox and starts again."""
    await machine.create(containers=[container("main", "while :; do :; done")])
    pod = await machine.running()
    [status] = pod["status"]["containerStatuses"]
    record = json.loads((machine.root / "node-1" / "host" / "shim.json").read_text())
    os.kill(record["pid"], signal.SIGKILL)
    pod = await machine.until_pod(lambda status: status["containerStatuses"][0]["restartCount"] == 1)
    [again] = pod["status"]["containerStatuses"]
    assert again["lastState"]["terminated"]["containerID"] == status["containerID"]
    assert again["lastState"]["terminated"]["reason"] == "Unknown"
    assert "SandboxChanged" in [reason for reason, _ in await machine.events()]


async def test_a_restarted_kubelet(machine):
    """Containers go on while no kubelet runs, and the next one has them."""
    await machine.create(
        containers=[container("main", "while :; do :; done")], terminationGracePeriodSeconds=1
    )
    before = (await machine.running())["status"]["containerStatuses"][0]
    await machine.stop()
    await machine.start(version="1.35")
    after = (await machine.running())["status"]["containerStatuses"][0]
    assert (after["containerID"], after["restartCount"]) == (before["containerID"], 0)
    await machine.delete()
    await machine.gone()
    containers = machine.root / "node-1" / "host" / "containers"
    await machine.until(lambda: os.listdir(containers) == [])  # noqa: PTH208 - in an async function


async def test_what_programs_write_is_no_state_of_the_kubelet(machine):
    """The journal of a node's files has nothing of its containers' files."""
    await machine.create(
        containers=[container("main", "echo mine >/file", volumeMounts=[])], restartPolicy="Never"
    )
    await machine.until_pod(lambda status: status.get("phase") == "Succeeded")
    await machine.stop()
    await machine.start()
    journal = b"".join(path.read_bytes() for path in (machine.root / "node-1" / "journal").iterdir())
    assert b"host/" not in journal
    assert b"logs/" not in journal


async def test_a_program_that_is_not_in_the_image(machine):
    """A container whose program cannot be started is shown with containerd's text, and is tried again."""
    await machine.create(containers=[container("main", "exit 0", command=["nothing"])])
    pod = await machine.until_pod(
        lambda status: (status.get("containerStatuses") or [{}])[0].get("restartCount") == 1
    )
    [status] = pod["status"]["containerStatuses"]
    ended = status["lastState"].get("terminated") or status["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (128, "StartError")
    assert 'exec: "nothing": executable file not found in $PATH: unknown' in ended["message"]


async def test_a_program_that_goes_on_after_sigterm(machine):
    """A deleted pod's containers have their grace period, and are killed then."""
    script = "trap '' TERM; echo started; while :; do :; done"
    await machine.create(containers=[container("main", script)], terminationGracePeriodSeconds=1)
    await machine.running()
    await machine.delete(grace_period=1)
    await machine.gone()
    messages = [message for reason, message in await machine.events() if reason == "Killing"]
    assert messages == ["Stopping container main"]
