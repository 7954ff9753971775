"""A pod's priority is that of its class, or of the default class.

Source: k8s.io/kubernetes/plugin/pkg/admission/priority/admission.go, 1.36.
"""

from collections.abc import Sequence
from typing import NamedTuple

from apimachinery.errors import Object
from apiserver.admission import CREATE, Attributes, Plugin
from apiserver.derived import Derived
from apiserver.encoding import loads
from apiserver.storage.interfaces import Key, Store

_RESOURCE = "priorityclasses.scheduling.k8s.io"


class Priority(Plugin):
    """Fills in spec.priority, spec.priorityClassName and spec.preemptionPolicy of a new pod."""

    operations = frozenset({CREATE})
    resources = frozenset({"pods"})

    def __init__(self, store: Store) -> None:
        self._store = store
        self._default = Derived(store, [_RESOURCE], _default_of)

    async def admit(self, attributes: Attributes) -> None:
        obj = attributes.object
        if obj is None:
            return
        spec = obj["spec"]
        wanted = spec.get("priorityClassName") or ""
        found = self._class(wanted) if wanted else self._default.get().found
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
        return loads(entry.value) if entry else None


class _Default(NamedTuple):
    """The class of pods that name none, if there is one."""

    found: Object | None


def _default_of(classes: Sequence[Object]) -> _Default:
    defaults = (one for one in classes if one.get("globalDefault"))
    return _Default(min(defaults, key=lambda one: int(one["value"]), default=None))
