"""Fills in pods: tolerations, topology labels, and what their priority class and runtime class demand.

- Pods tolerate a node that is not ready or reachable for five minutes, unless they say otherwise.
- A pod has the priority of its class, or of the default class, of which there is one.
- A runtime class sets overhead and constrains nodes.
- A pod gets the zone and region of its node as labels, once it has one.

Sources, all 1.36: plugin/pkg/admission (defaulttolerationseconds, priority, runtimeclass, podtopologylabels)
and pkg/registry/scheduling/priorityclass/storage/storage.go (which deletes none of the system's own).
"""

from typing import Any

from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.golang.roundtrip import given
from kubeskew.apimachinery.names import resource_name_error
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quota.amounts import amounts
from kubeskew.apiserver.admission import CREATE, DELETE, UPDATE, Attributes, Plugin
from kubeskew.apiserver.caching.store_cache import DerivedFromStore
from kubeskew.apiserver.features import AdmissionFeatures
from kubeskew.apiserver.storage.interfaces import Store
from kubeskew.apiserver.storage.records import Key
from kubeskew.apiserver.unreadable import object_of

_TOLERATED_SECONDS = 300
_TOLERATED_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class DefaultTolerationSeconds(Plugin):
    """Adds the two tolerations where no other covers their taint."""

    operations = frozenset({CREATE, UPDATE})
    awaits = False
    resources = frozenset({"pods"})

    async def admit(self, attributes: Attributes) -> None:
        obj = attributes.object
        if obj is None:
            return
        tolerations: list[Object] = obj["spec"].get("tolerations") or []
        missing = [
            taint
            for taint in _TOLERATED_TAINTS
            if not any(_covers(toleration, taint) for toleration in tolerations)
        ]
        if missing:
            added: list[dict[str, Any]] = [
                {
                    "key": taint,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": _TOLERATED_SECONDS,
                }
                for taint in missing
            ]
            obj["spec"]["tolerations"] = [*tolerations, *added]


def _covers(toleration: Object, taint: str) -> bool:
    return (toleration.get("key") or taint) == taint and (
        toleration.get("effect") or "NoExecute"
    ) == "NoExecute"


SYSTEM_PRIORITIES = {"system-node-critical": 2000001000, "system-cluster-critical": 2000000000}
_PRIORITY_CLASSES = "priorityclasses.scheduling.k8s.io"


class Priority(Plugin):
    """Fills in spec.priority, spec.priorityClassName and spec.preemptionPolicy of a new pod."""

    operations = frozenset({CREATE, UPDATE, DELETE})
    resources = frozenset({"pods", _PRIORITY_CLASSES})

    def __init__(self, store: Store) -> None:
        self._store = store
        self._defaults: DerivedFromStore[list[Object]] = DerivedFromStore(
            store, [_PRIORITY_CLASSES], _default_classes
        )

    async def validate(self, attributes: Attributes) -> None:
        if attributes.resource.storage_resource != _PRIORITY_CLASSES:
            return
        if attributes.operation == DELETE:
            if attributes.name in SYSTEM_PRIORITIES:
                raise attributes.refuse("this is a system priority class and cannot be deleted")
            return
        default = self._default()
        if default is None or not (attributes.object or {}).get("globalDefault"):
            return
        name = default["metadata"]["name"]
        if attributes.operation == CREATE or name != attributes.name:
            raise attributes.refuse(
                f"PriorityClass {name} is already marked as default. Only one default can exist"
            )

    async def admit(self, attributes: Attributes) -> None:
        obj = attributes.object
        if obj is None or attributes.resource.storage_resource != "pods":
            return
        if attributes.operation == UPDATE:
            _keep_priority(obj["spec"], (attributes.old or {}).get("spec") or {})
            return
        spec = obj["spec"]
        wanted = spec.get("priorityClassName") or ""
        found = self._class(wanted) if wanted else self._default()
        if wanted and found is None:
            raise attributes.refuse(f"no PriorityClass with name {wanted} was found")
        priority = found["value"] if found else 0
        policy = (found or {}).get("preemptionPolicy") or "PreemptLowerPriority"
        if found and not wanted:
            spec["priorityClassName"] = found["metadata"]["name"]
        if spec.get("priority") not in {None, priority}:
            raise attributes.refuse(
                f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
                f"priority admission controller computed {priority} from the given PriorityClass name"
            )
        if spec.get("preemptionPolicy") not in {None, policy}:
            raise attributes.refuse(
                f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in "
                f"pod spec; priority admission controller computed {policy} from the given PriorityClass name"
            )
        spec["priority"], spec["preemptionPolicy"] = priority, policy

    def _class(self, name: str) -> Object | None:
        entry = self._store.get(Key(_PRIORITY_CLASSES, "", name))
        return object_of(entry) if entry else None

    def _default(self) -> Object | None:
        """The lowest of several default classes counts."""
        return min(self._defaults.get(), key=lambda one: int(one["value"]), default=None)


def _default_classes(classes: list[Object]) -> list[Object]:
    return [priority_class for priority_class in classes if priority_class.get("globalDefault")]


def _keep_priority(new: Object, old: Object) -> None:
    for name in ("priority", "preemptionPolicy"):
        if new.get(name) is None and old.get(name) is not None:
            new[name] = old[name]


_RUNTIME_CLASSES = "runtimeclasses.node.k8s.io"
_OTHER_OVERHEAD = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
_OWN_OVERHEAD = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"


class RuntimeClass(Plugin):
    waits = True
    operations = frozenset({CREATE})
    resources = frozenset({"pods"})

    def __init__(self, store: Store) -> None:
        self._store = store

    async def admit(self, attributes: Attributes) -> None:
        pod = attributes.object
        found = await self._class(attributes)
        if pod is None or found is None:
            return
        spec = pod["spec"]
        overhead = found.get("overhead")
        if overhead is not None:
            fixed = overhead.get("podFixed") or {}
            if given(spec, "overhead") is not None and amounts(spec.get("overhead")) != amounts(fixed):
                raise attributes.refuse(_OTHER_OVERHEAD)
            spec["overhead"] = dict(fixed)
        if found.get("scheduling") is not None:
            _place(attributes, spec, found["scheduling"])

    async def validate(self, attributes: Attributes) -> None:
        pod = attributes.object
        found = await self._class(attributes)
        if pod is None:
            return
        own = given(pod["spec"], "overhead")
        overhead = (found or {}).get("overhead")
        if overhead is not None:
            if amounts(overhead.get("podFixed")) != amounts(own):
                raise attributes.refuse(_OTHER_OVERHEAD)
        elif own is not None:
            raise attributes.refuse(_OWN_OVERHEAD)

    async def _class(self, attributes: Attributes) -> Object | None:
        """None for a pod without a class; raises 403 if its class does not exist."""
        name = ((attributes.object or {}).get("spec") or {}).get("runtimeClassName")
        if not name:
            return None
        key = Key(_RUNTIME_CLASSES, "", name)
        entry = self._store.get(key)
        if entry is None:
            await self._store.refresh()
            entry = self._store.get(key)
        if entry is None:
            if why := resource_name_error(name):  # not an error of the API, so none that it answers with
                raise StatusError(500, "", why)
            raise attributes.refuse(f'pod rejected: RuntimeClass "{name}" not found')
        found: Object = object_of(entry)
        return found


def _place(attributes: Attributes, spec: Object, scheduling: Object) -> None:
    """Adds the class's node selector and tolerations; raises 403 if the pod selects other nodes."""
    wanted = scheduling.get("nodeSelector") or {}
    selector = dict(spec.get("nodeSelector") or {})
    for name, value in wanted.items():
        if selector.get(name, value) != value:
            raise attributes.refuse(
                f"conflict: runtimeClass.scheduling.nodeSelector[{name}] = {value}; "
                f"pod.spec.nodeSelector[{name}] = {selector[name]}"
            )
    if wanted:
        spec["nodeSelector"] = {**selector, **wanted}
    tolerations = list(spec.get("tolerations") or ())
    tolerations += [
        toleration for toleration in scheduling.get("tolerations") or () if toleration not in tolerations
    ]
    if tolerations:
        spec["tolerations"] = tolerations


_TOPOLOGY_LABELS = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")


class PodTopologyLabels(Plugin):
    """Looks at bindings, whose labels the pod takes over, and at pods that are made with a node."""

    operations = frozenset({CREATE})
    resources = frozenset({"pods"})
    subresources = frozenset({"", "binding"})

    def __init__(self, store: Store, features: AdmissionFeatures) -> None:
        self._store = store
        self._on = features.topology_labels

    async def admit(self, attributes: Attributes) -> None:
        obj = attributes.object
        if obj is None or not self._on:
            return
        labels = self._of_node(_node_of(obj, attributes.subresource))
        if labels:
            metadata = obj.setdefault("metadata", {})
            metadata["labels"] = {**labels, **(metadata.get("labels") or {})}

    def _of_node(self, name: str) -> dict[str, str]:
        entry = self._store.get(Key("nodes", "", name)) if name else None
        if entry is None:
            return {}
        labels = object_of(entry)["metadata"].get("labels") or {}
        return {label: labels[label] for label in _TOPOLOGY_LABELS if label in labels}


def _node_of(obj: Object, subresource: str) -> str:
    if not subresource:
        return (obj.get("spec") or {}).get("nodeName") or ""
    target = obj.get("target") or {}
    return (target.get("name") or "") if target.get("kind") == "Node" else ""
