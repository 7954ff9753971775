"""Sets a pod's priority to that of its class, or of the default class, of which there is one.

Source: k8s.io/kubernetes/plugin/pkg/admission/priority/admission.go and
pkg/registry/scheduling/priorityclass/storage/storage.go (which deletes none of the system's own), 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.admission import CREATE, DELETE, UPDATE, Attributes, Plugin
from kubeskew.apiserver.caching.store_cache import DerivedFromStore
from kubeskew.apiserver.storage.interfaces import Store
from kubeskew.apiserver.storage.records import Key
from kubeskew.apiserver.unreadable import object_of

SYSTEM_PRIORITIES = {"system-node-critical": 2000001000, "system-cluster-critical": 2000000000}
_RESOURCE = "priorityclasses.scheduling.k8s.io"


class Priority(Plugin):
    """Fills in spec.priority, spec.priorityClassName and spec.preemptionPolicy of a new pod."""

    operations = frozenset({CREATE, UPDATE, DELETE})
    resources = frozenset({"pods", _RESOURCE})

    def __init__(self, store: Store) -> None:
        self._store = store
        self._defaults: DerivedFromStore[list[Object]] = DerivedFromStore(store, [_RESOURCE], _defaults)

    async def validate(self, attributes: Attributes) -> None:
        if attributes.resource.storage_resource != _RESOURCE:
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
            _keep(obj["spec"], (attributes.old or {}).get("spec") or {})
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
        entry = self._store.get(Key(_RESOURCE, "", name))
        return object_of(entry) if entry else None

    def _default(self) -> Object | None:
        """The lowest of several default classes counts."""
        return min(self._defaults.get(), key=lambda one: int(one["value"]), default=None)


def _defaults(classes: list[Object]) -> list[Object]:
    return [priority_class for priority_class in classes if priority_class.get("globalDefault")]


def _keep(new: Object, old: Object) -> None:
    for name in ("priority", "preemptionPolicy"):
        if new.get(name) is None and old.get(name) is not None:
            new[name] = old[name]
