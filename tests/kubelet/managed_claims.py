"""A DRA manager without its node: a driver that answers as asked, a checkpoint in memory, claims and pods."""

import pytest
from prometheus_client import CollectorRegistry

from kubeskew.apimachinery.client.refs import dra_refs
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.device_managers import DeviceError
from kubeskew.kubelet.dra.claims import ClaimCache
from kubeskew.kubelet.dra.features import DRAFeatures
from kubeskew.kubelet.dra.health import HealthCache
from kubeskew.kubelet.dra.manager import DRAManager
from kubeskew.kubelet.dra.plugin import PluginRegistry, PreparedDevice
from kubeskew.kubelet.features import KubeletFeatures
from kubeskew.kubelet.metrics import KubeletMetrics

DRIVER = "gpu.example.com"


class FakePlugin:
    """A driver that answers as asked and counts."""

    driver = DRIVER
    connected = True

    def __init__(self):
        self.prepare_calls, self.unprepare_calls = [], []
        self.answer = lambda claim: [
            PreparedDevice("node-1", "gpu-0", ("req",), (f"{DRIVER}/claim={claim.name}-req",)),
            PreparedDevice("node-1", "gpu-1", ("other",), (f"{DRIVER}/claim={claim.name}-other",)),
        ]
        self.failure = None
        self.extra = {}

    async def node_prepare_resources(self, claims):
        self.prepare_calls.append([claim.name for claim in claims])
        return self._answers(claims, self.answer)

    async def node_unprepare_resources(self, claims):
        self.unprepare_calls.append([claim.name for claim in claims])
        return self._answers(claims, lambda claim: None)

    def _answers(self, claims, answer):
        if self.failure is not None:
            raise self.failure
        found = {claim.uid: answer(claim) for claim in claims}
        return {uid: value for uid, value in found.items() if value != "skip"} | self.extra


class MemoryStore:
    """A checkpoint without a file."""

    def __init__(self):
        self.infos, self.writes = [], 0

    def load(self):
        return self.infos

    def store(self, infos):
        self.infos, self.writes = list(infos), self.writes + 1

    def users(self):
        return {info.name: info.pod_uids for info in self.infos}


class ManagedClaims:
    """A DRA manager of one release, and what it stands on."""

    def __init__(self, server, client, clock, directory, minor=36, gates=None):
        self.server, self.client, self.minor = server, client, minor
        version = Version(minor)
        self.refs = dra_refs(version)
        self.features = KubeletFeatures.of(FeatureGates(version, gates))
        texts = DRAFeatures.of(FeatureGates(version)).texts
        self.plugins, self.plugin, self.store = (
            PluginRegistry(texts.unregistered),
            FakePlugin(),
            MemoryStore(),
        )
        self.plugins.register(self.plugin)
        self.cache = ClaimCache(self.store)
        self.health = HealthCache(directory / "health", clock)
        self.metrics = KubeletMetrics(CollectorRegistry())
        self.manager = DRAManager(
            "node-1", client, self.refs.claims, self.plugins, self.cache, self.health,
            self.features, texts, clock, self.metrics,
        )  # fmt: skip

    async def claim(self, name, *users, driver=DRIVER, owner=None):
        owners = [{"controller": True, "uid": owner}] if owner else []
        body = {
            "metadata": {"name": name, "namespace": "default", "ownerReferences": owners},
            "status": {
                "reservedFor": [{"resource": "pods", "name": user, "uid": user} for user in users],
                "allocation": {"devices": {"results": [{"driver": driver, "request": "req"}]}},
            },
        }
        return await self.client.create(self.refs.claims, body)

    async def prepare_error(self, *args, **kwargs):
        with pytest.raises(DeviceError) as caught:
            await self.manager.prepare(pod(*args, **kwargs))
        return str(caught.value)


def pod(*claims, uid="p", uses=(), extended=None, requests=None, templates=()):
    entries = [{"name": f"entry-{name}", "resourceClaimName": name} for name in claims]
    entries += [{"name": name, "resourceClaimTemplateName": "t"} for name in templates]
    resources = {"claims": list(uses), "requests": requests or {}}
    return {
        "metadata": {"name": "pod", "namespace": "default", "uid": uid},
        "spec": {"resourceClaims": entries, "containers": [{"name": "main", "resources": resources}]},
        "status": {"extendedResourceClaimStatus": extended} if extended else {},
    }
