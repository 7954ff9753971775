"""The state of a cluster by its log, one write after the other."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kubeskew.apimachinery.conditions import find_condition
from kubeskew.apimachinery.known_names import kind_of
from kubeskew.apimachinery.objects import Key, ObjectView, controller_of, object_key
from kubeskew.conformance.evidence.log import BRANCHED, FAULT, ComponentChange, Logged, Write

STARTED = "started"


@dataclass(frozen=True, slots=True)
class Change:
    """One write with the object before it; None where it was created."""

    write: Write
    before: ObjectView | None

    @property
    def now(self) -> ObjectView | None:
        """None where the object was deleted."""
        return None if self.write.verb == "delete" else self.write.value

    @property
    def text(self) -> str:
        by = self.write.by or "an unknown client"
        return f"{named(self.write.value)} (written by {by} at revision {self.write.revision})"


class Cluster:
    """Holds every object as it was last written, and every component in its last logged state."""

    def __init__(self) -> None:
        self.objects: defaultdict[str, dict[Key, ObjectView]] = defaultdict(dict)
        self.last_writes: dict[tuple[str, Key], Write] = {}
        self.components: dict[str, ComponentChange] = {}
        self.starts: list[ComponentChange] = []
        self.revision = 0
        self.time = ""

    def apply(self, entry: Logged) -> Change | None:
        """Takes the next entry of the log; None for a change of a component."""
        self.revision, self.time = max(entry.revision, self.revision), entry.time
        if isinstance(entry, ComponentChange):
            if entry.what in BRANCHED:
                self.components.clear()
            elif not entry.what.startswith(FAULT):
                self.components[entry.component] = entry
                if entry.what == STARTED:
                    self.starts.append(entry)
            return None
        place = (entry.namespace, entry.name)
        objects = self.objects[entry.resource]
        before = objects.pop(place, None)
        if entry.verb != "delete":
            objects[place] = entry.value
        self.last_writes[entry.resource, place] = entry
        return Change(entry, before)

    def all(self, resource: str) -> Iterator[ObjectView]:
        """Objects come in the order of their names."""
        found = self.objects.get(resource) or {}
        for place in sorted(found):
            yield found[place]

    def get(self, resource: str, namespace: str, name: str) -> ObjectView | None:
        return (self.objects.get(resource) or {}).get((namespace, name))

    def running(self, *kinds: str) -> bool:
        """Returns True if of each kind of component (`scheduler`, `kubelet`) at least one runs and none is
        down. A kind that the log never named counts as not running."""
        for kind in kinds:
            found = [each for name, each in sorted(self.components.items()) if kind_of(name) == kind]
            if not found or any(each.what != STARTED for each in found):
                return False
        return True

    def up(self, component: str) -> bool:
        change = self.components.get(component)
        return change is not None and change.what == STARTED

    def last_write(self, resource: str, obj: ObjectView) -> Write | None:
        return self.last_writes.get((resource, object_key(obj)))


def named(obj: Mapping[str, Any]) -> str:
    """The text is `Pod default/web`."""
    namespace, name = object_key(obj)
    return f"{obj.get('kind') or 'object'} {namespace}/{name}" if namespace else f"{obj.get('kind')} {name}"


def is_deleting(obj: ObjectView) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))


def controller(obj: ObjectView) -> Mapping[str, Any]:
    """The mapping is empty if there is no controller."""
    return controller_of(obj) or {}


def condition(obj: ObjectView, kind: str) -> Mapping[str, Any]:
    """The mapping is empty if there is no condition of this type."""
    return find_condition(obj, kind) or {}
