"""Sets the overhead and the node constraints that a pod's runtime class demands.

Source: k8s.io/kubernetes/plugin/pkg/admission/runtimeclass/admission.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quota.amounts import amounts
from kubeskew.apiserver.admission import CREATE, Attributes, Plugin
from kubeskew.apiserver.storage.interfaces import Store
from kubeskew.apiserver.storage.records import Key
from kubeskew.apiserver.unreadable import object_of

_RESOURCE = "runtimeclasses.node.k8s.io"
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
            if spec.get("overhead") is not None and amounts(spec["overhead"]) != amounts(fixed):
                raise attributes.refuse(_OTHER_OVERHEAD)
            spec["overhead"] = dict(fixed)
        if found.get("scheduling") is not None:
            _place(attributes, spec, found["scheduling"])

    async def validate(self, attributes: Attributes) -> None:
        pod = attributes.object
        found = await self._class(attributes)
        if pod is None:
            return
        given = pod["spec"].get("overhead")
        overhead = (found or {}).get("overhead")
        if overhead is not None:
            if amounts(overhead.get("podFixed")) != amounts(given):
                raise attributes.refuse(_OTHER_OVERHEAD)
        elif given is not None:
            raise attributes.refuse(_OWN_OVERHEAD)

    async def _class(self, attributes: Attributes) -> Object | None:
        """None for a pod without a class; raises 403 if its class does not exist."""
        name = ((attributes.object or {}).get("spec") or {}).get("runtimeClassName")
        if not name:
            return None
        key = Key(_RESOURCE, "", name)
        entry = self._store.get(key)
        if entry is None:
            await self._store.refresh()
            entry = self._store.get(key)
        if entry is None:
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
