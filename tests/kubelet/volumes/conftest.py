"""The volumes of a node whose kubelet does not run: an API server, files, and pods that are only objects."""

import os
import stat
from datetime import timedelta
from pathlib import Path

import pytest

from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.containers.environment import ConfigError
from kubeskew.kubelet.features import KubeletFeatures
from kubeskew.kubelet.volumes.files import VolumeFiles
from kubeskew.kubelet.volumes.node_volumes import NodeVolumes


class OwnedFiles(VolumeFiles):
    """Files whose owners are noted instead of changed, as if the kubelet were root."""

    def __init__(self):
        super().__init__(is_root=True)
        self.owners = {}

    def change_owner(self, path, user, group):
        old = self.owners.get(path.name, (-1, -1))
        self.owners[path.name] = (user if user >= 0 else old[0], group if group >= 0 else old[1])


class Events:
    def __init__(self):
        self.found = []

    def event(self, _obj, _kind, reason, message, **_):
        self.found.append((reason, message))


class TokenServer:
    """Answers requests for tokens, each with a number of its own; may refuse."""

    def __init__(self, clock):
        self._clock = clock
        self.requests = []
        self.refusal = None

    def answer(self, body):
        if self.refusal:
            raise StatusError(403, "Forbidden", self.refusal)
        self.requests.append(body["spec"])
        expires = self._clock.now() + timedelta(seconds=body["spec"]["expirationSeconds"])
        status = {"token": f"token-{len(self.requests)}", "expirationTimestamp": timestamp(expires)}
        return {**body, "status": status}


class VolumeNode:
    def __init__(self, directory, client, clock, entropy, tokens):
        self.directory, self.client, self.clock, self._entropy = directory, client, clock, entropy
        self.tokens, self.files, self.events = tokens, OwnedFiles(), Events()
        self.start()

    def start(self, version="1.36", gates="", *, supports_rro=False):
        parsed = Version.parse(version)
        self.features = KubeletFeatures.of(FeatureGates.parse(parsed, gates))
        elsewhere = {"/var/lib/kubelet": self.directory / "kubelet", "/var/run/cdi": self.directory / "cdi"}
        for directory in elsewhere.values():
            directory.mkdir(exist_ok=True)
        self.volumes = NodeVolumes.of(
            *("node-1", self.directory / "root", elsewhere, lambda: {"zone": "a"}, self.client, self.clock),
            *(self._entropy, self.features.volumes, self.events),
            files=self.files,
            supports_recursive_read_only=supports_rro,
        )
        self.volumes.root.make()

    @property
    def manager(self):
        return self.volumes.manager

    def pod(self, *volumes, mounts=None, name="p", **spec):
        """A pod with one container that mounts all volumes, unless `mounts` says otherwise."""
        if mounts is None:
            mounts = [{"name": volume["name"], "mountPath": f"/{volume['name']}"} for volume in volumes]
        main = {"name": "main", "image": "i", "volumeMounts": mounts}
        metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": {"a": "1"}}
        return {"metadata": metadata, "spec": {"containers": [main], "volumes": [*volumes], **spec}}

    async def set_up(self, pod):
        await self.manager.set_up(pod)
        return {name: volume.path for name, volume in self.manager.mounted(pod["metadata"]["uid"]).items()}

    def tear_down(self, uid):
        self.manager.forget(uid)
        self.manager.remove_volumes(uid)

    async def failure(self, pod):
        with pytest.raises(ConfigError) as caught:
            await self.manager.set_up(pod)
        [message] = caught.value.messages
        return message

    async def create(self, ref, name, namespace="default", **content):
        metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
        return await self.client.create(ref, {"metadata": metadata, **content}, namespace)


@pytest.fixture
async def volume_node(tmp_path, server, client, clock, entropy, monkeypatch):
    tokens = TokenServer(clock)
    create = server._create

    async def answered(target, body):
        return tokens.answer(body) if target.subresource == "token" else await create(target, body)

    monkeypatch.setattr(server, "_create", answered)
    node = VolumeNode(tmp_path, client, clock, entropy, tokens)
    yield node
    node.volumes.memory.remove_all()


@pytest.fixture
def contents():
    """Reads a directory as containers see it: the text and mode of each file by its path."""

    def read(directory):
        found = {}
        for parent, directories, names in os.walk(directory, followlinks=True):
            directories[:] = sorted(name for name in directories if not name.startswith(".."))
            for path in (Path(parent) / name for name in names):
                mode = f"{stat.S_IMODE(path.stat().st_mode):o}"
                found[str(path.relative_to(directory))] = path.read_text(), mode
        return found

    return read
