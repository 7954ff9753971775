"""Nodes, pods and a handle for tests of single plugins; no scheduler around them."""

from types import SimpleNamespace

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.scheduler.cache import Cache
from kubeskew.scheduler.features import SchedulerFeatures
from kubeskew.scheduler.framework.interfaces import CycleState
from kubeskew.scheduler.framework.pod_info import PodInfo


class _Objects:
    """Stands for an informer that holds these objects."""

    def __init__(self, objects):
        self._objects = objects

    def get(self, namespace, name):
        return next((each for each in self.list(namespace) if each["metadata"]["name"] == name), None)

    def list(self, namespace=None):
        return [obj for obj in self._objects if namespace in (None, obj["metadata"].get("namespace") or "")]

    def add_index(self, name, function):
        self._function = function

    def by_index(self, name, value):
        return [obj for obj in self._objects if value in self._function(obj)]


class Bench:
    """A cache of nodes with pods, and the other objects by kind."""

    def __init__(self, version="1.36", objects=None, **gates):
        version = Version.parse(version)
        self.cache = Cache()
        self.objects = objects or {}
        features = SchedulerFeatures.of(FeatureGates(version, gates))
        self.handle = SimpleNamespace(cache=self.cache, features=features, informer=self._informer)

    def _informer(self, ref):
        return _Objects(self.objects.setdefault(ref.kind, []))

    def node(self, name, taints=(), images=(), **labels):
        self.cache.set_node(
            {
                "metadata": {"name": name, "labels": {"host": name, **labels}},
                "spec": {"taints": [*taints]},
                "status": {
                    "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
                    "images": [{"names": [image], "sizeBytes": size} for image, size in images],
                },
            }
        )

    def running(self, node, name, *, labels=None, namespace="default", deleted=False, **spec):
        made = pod(name, labels=labels, namespace=namespace, nodeName=node, **spec)
        if deleted:
            made.pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        self.cache.add_pod(made)
        return made

    def filtered(self, plugin, made, state=None):
        """Returns what the plugin says about each node: "" is yes, "Skip" that it has nothing to say."""
        state = state or CycleState()
        result = plugin.pre_filter(state, made, self.cache.nodes())
        if not result.status.is_success:
            return result.status.message or result.status.code.value
        return {node.name: plugin.filter(state, made, node).message for node in self.cache.nodes()}

    def scored(self, plugin, made):
        """Scores by node, normalized; None if the plugin skips."""
        state, nodes = CycleState(), self.cache.nodes()
        if plugin.pre_score(state, made, nodes).is_skip:
            return None
        scores = {node.name: plugin.score(state, made, node) for node in nodes}
        if hasattr(plugin, "normalize"):
            plugin.normalize(scores)
        elif hasattr(plugin, "normalize_with"):
            plugin.normalize_with(state, made, scores)
        return scores


def pod(name="p", *, labels=None, namespace="default", owner=None, **spec):
    metadata = {"namespace": namespace, "name": name, "uid": name, "labels": labels or {}}
    if owner is not None:
        metadata["ownerReferences"] = [owner]
    return PodInfo({"metadata": metadata, "spec": {"containers": [{"name": "c"}], **spec}})
