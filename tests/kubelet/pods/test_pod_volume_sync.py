"""The volumes of pods whose containers are processes: from a pod's begin to its end.

The containers are acted; their runtime only says that it runs programs.
"""

import asyncio

import pytest

from kubeskew.apimachinery.client.refs import CONFIG_MAPS, EVENTS, PODS
from kubeskew.kubelet.containers.simulated.runtime import SimulatedImages, SimulatedRuntime
from kubeskew.kubelet.volumes.pod_volumes import DirectoryVolumes

pytestmark = pytest.mark.looptime

REASON = "FailedToMakePodDataDirectories"
MOUNTS = [{"name": "cm", "mountPath": "/cm"}, {"name": "e", "mountPath": "/e", "subPath": "d"}]


@pytest.fixture
async def process_node(node, monkeypatch):
    """A node whose runtime seems to run programs, and whose threads are none."""

    async def run(function, *arguments):
        return function(*arguments)

    monkeypatch.setattr(asyncio, "to_thread", run)
    monkeypatch.setattr(SimulatedRuntime, "runs_programs", True)
    await node.start()
    return node


async def create(node, *, main=None, empty_dir=None, **spec):
    volumes = [{"name": "cm", "configMap": {"name": "cm"}}, {"name": "e", "emptyDir": empty_dir or {}}]
    main = {"name": "main", "image": "i", "volumeMounts": MOUNTS, **(main or {})}
    pod = await node.create(containers=[main], volumes=volumes, **spec)
    return node.root / "node-1/kubelet/pods" / pod["metadata"]["uid"]


async def config(node, **data):
    await node.client.create(CONFIG_MAPS, {"metadata": {"name": "cm", "namespace": "default"}, "data": data})


async def test_from_begin_to_end(process_node):
    """A pod waits for its volumes, sees changes of what they hold, and leaves nothing."""
    directory = await create(process_node)
    message = 'MountVolume.SetUp failed for volume "cm" : configmap "cm" not found'

    async def has_event():
        return ("FailedMount", message) in await process_node.events()

    await process_node.until(has_event)
    await config(process_node, k="1")
    await process_node.running()
    file = directory / "volumes/kubernetes.io~configmap/cm/k"
    assert file.read_text() == "1"
    [container] = process_node.agent.containers()
    assert [mount["path"] for mount in container["mounts"]] == [
        "/cm", "/e", "/etc/hosts", "/dev/termination-log",
    ]  # fmt: skip
    assert container["annotations"] == {}
    assert (directory / "volumes/kubernetes.io~empty-dir/e/d").is_dir()
    assert "\tpod-1\n" in (directory / "etc-hosts").read_text()

    await process_node.client.patch(CONFIG_MAPS, "cm", "default", {"data": {"k": "2"}})
    before = process_node.clock.monotonic()
    await process_node.until(lambda: file.read_text() == "2")
    assert process_node.clock.monotonic() - before <= 91
    await process_node.delete()
    await process_node.gone()
    await process_node.until(lambda: not directory.exists())


async def test_change_of_the_pod(process_node):
    """Files that show the pod are brought up to date at once."""
    items = [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]
    main = {"name": "main", "image": "i", "volumeMounts": [{"name": "d", "mountPath": "/d"}]}
    pod = await process_node.create(
        containers=[main], volumes=[{"name": "d", "downwardAPI": {"items": items}}]
    )
    await process_node.running()
    uid = pod["metadata"]["uid"]
    directory = process_node.root / "node-1/kubelet/pods" / uid / "volumes/kubernetes.io~downward-api/d"
    await process_node.client.patch(PODS, "pod-1", "default", {"metadata": {"labels": {"a": "b"}}})
    await process_node.clock.sleep(1)
    assert (directory / "l").read_text() == 'a="b"'


async def test_termination_message(process_node):
    """The file's text becomes the message of the container's end."""
    await config(process_node, k="1")
    annotations = {"kubelet.kubeskew.io/runs-for": "30"}
    directory = await create(process_node, annotations=annotations, restartPolicy="Never")
    await process_node.running()
    [file] = (directory / "containers/main").iterdir()
    file.write_text("done")
    pod = await process_node.until_pod(lambda status: status.get("phase") == "Succeeded")
    [status] = pod["status"]["containerStatuses"]
    assert status["state"]["terminated"]["message"] == "done"
    assert not status["state"]["terminated"]["startedAt"].startswith("1970")
    assert not (directory / "volumes").exists()
    await process_node.stop()
    await process_node.start()
    assert (await process_node.pod())["status"]["containerStatuses"] == [status]


async def test_eviction_for_a_limit(process_node):
    """A pod whose emptyDir has grown beyond its limit is evicted."""
    await config(process_node, k="1")
    directory = await create(process_node, empty_dir={"sizeLimit": "1Mi"})
    await process_node.running()
    (directory / "volumes/kubernetes.io~empty-dir/e/d/f").write_bytes(b"x" * (2 << 20))
    pod = await process_node.until_pod(lambda status: status.get("phase") == "Failed")
    message = 'Usage of EmptyDir volume "e" exceeds the limit "1Mi". '
    assert (pod["status"]["reason"], pod["status"]["message"]) == ("Evicted", message)
    assert ("Evicted", message) in await process_node.events()


async def test_restart_of_the_kubelet(process_node):
    """Volumes stay while no kubelet runs; those of pods that go meanwhile are removed by the next one."""
    await config(process_node, k="1")
    directory = await create(process_node)
    await process_node.running()
    await process_node.kill()
    (directory / "volumes/kubernetes.io~empty-dir/e/f").write_text("x")
    await process_node.start()
    await process_node.clock.sleep(1)
    assert (directory / "volumes/kubernetes.io~empty-dir/e/f").read_text() == "x"
    await process_node.kill()
    await process_node.delete(grace_period=0)
    await process_node.start()
    await process_node.until(lambda: not directory.exists())


async def test_refused_container(process_node):
    """A container that may not run as root, or whose subpath may not be, is not created."""
    await config(process_node, k="1")
    wrong = [{"name": "cm", "mountPath": "/cm", "subPath": "../x"}]
    await create(process_node, main={"volumeMounts": wrong})
    pod = await process_node.until_pod(lambda status: _waiting(status) == "CreateContainerConfigError")
    [status] = pod["status"]["containerStatuses"]
    assert status["state"]["waiting"]["message"] == (
        "unable to provision SubPath `../x`: must not contain '..'"
    )
    events = (await process_node.client.list(EVENTS, "default"))["items"]
    assert "Error: unable to provision SubPath `../x`: must not contain '..'" in [
        event["message"] for event in events
    ]


def _waiting(status):
    [container] = status.get("containerStatuses") or [{}]
    return ((container.get("state") or {}).get("waiting") or {}).get("reason")


async def test_image_volume(process_node, monkeypatch, tmp_path):
    """The image of a volume is pulled for the container that mounts it, and its directory mounted."""
    monkeypatch.setattr(SimulatedImages, "image_directory", lambda *_: tmp_path, raising=False)
    await process_node.stop()
    await process_node.start()
    main = {"name": "main", "image": "i", "volumeMounts": [{"name": "i", "mountPath": "/i"}]}
    image = {"reference": "data:1", "pullPolicy": "Always"}
    await process_node.create(containers=[main], volumes=[{"name": "i", "image": image}])
    await process_node.running()
    [container] = process_node.agent.containers()
    assert container["mounts"][0]["host_path"] == str(tmp_path)
    assert ("Pulling", 'Pulling image "data:1"') in await process_node.events()


async def test_pods_that_want_app_armor(process_node):
    """A node without AppArmor refuses them, if their programs would run."""
    await process_node.create(securityContext={"appArmorProfile": {"type": "RuntimeDefault"}})
    pod = await process_node.until_pod(lambda status: status.get("phase") == "Failed")
    assert (pod["status"]["reason"], pod["status"]["message"]) == (
        "AppArmor",
        "Pod was rejected: Cannot enforce AppArmor: AppArmor is not enabled on the host",
    )


async def test_directory_that_cannot_be_made(process_node):
    """A pod without a directory waits, with an event that says why."""
    pods = process_node.root / "node-1/kubelet/pods"
    pods.write_text("")
    await process_node.create()

    async def event():
        found = [text for reason, text in await process_node.events() if reason == REASON]
        return found[0] if found else None

    text = await process_node.until(event)
    assert text.startswith("error making pod data directories: mkdir ")
    assert text.endswith(": not a directory")
    pods.unlink()
    await process_node.running()


async def test_cleaning_goes_on_after_any_error(process_node, monkeypatch):
    """Directories of pods that are gone are looked at again after an error that nobody expects."""
    looks = []

    async def clean_up(_volumes, _known):
        looks.append(len(looks))
        raise RuntimeError("unexpected")

    monkeypatch.setattr(DirectoryVolumes, "clean_up", clean_up)

    await process_node.stop()
    await process_node.start()
    await process_node.until(lambda: len(looks) > 1)
