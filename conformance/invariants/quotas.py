"""Judges quotas: I09 quota-exact."""

from collections.abc import Callable, Iterable, Iterator

from kubeskew.apimachinery.errors import GroupResource
from kubeskew.apimachinery.objects import Object, ObjectView
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.conformance.invariants.cluster import Change, Cluster, Place, named, place_of
from kubeskew.conformance.invariants.invariant import Evidence

QUOTAS = "resourcequotas"
_API_SERVER = "kube-apiserver"  # begins the name of a writer

# Measures what a quota limits, from the objects of a resource in a namespace, or in none.
Measure = Callable[[Object, Callable[[GroupResource, str], Iterable[Object] | None]], dict[str, Quantity]]


class QuotaExact:
    """I09: what a quota says is used is what is there, and is never raised beyond what it allows."""

    code = "I09"
    name = "quota-exact"

    def __init__(self, measure: Measure | None = None) -> None:
        """`measure` is of the version and gates of the quota controller; without it sums are not checked."""
        self._measure = measure
        self._charges: dict[Place, str] = {}  # by quota: the last charge, unless it was counted since
        self._charged: list[Place] = []  # quotas that were charged, and nothing was created since

    def see(self, change: Change, cluster: Cluster) -> Iterator[str]:
        self._note(change)
        if change.write.resource != QUOTAS or change.now is None or change.before is None:
            return
        if not change.write.by.startswith(_API_SERVER):
            return  # the controller counts what is there, also beyond what is allowed
        old, new = _used(change.before), _used(change.now)
        hard = {
            name: Quantity.of(value)
            for name, value in ((change.now.get("spec") or {}).get("hard") or {}).items()
        }
        for name in sorted(new):
            if name in hard and new[name] > hard[name] and new[name] > old.get(name, new[name]):
                admitted, allowed = new[name].canonical(), hard[name].canonical()
                yield f"{change.text} admits {admitted} of {name}, and allows {allowed}"

    def _note(self, change: Change) -> None:
        """Notes who charged quotas, and what was created then: admission charges before an object is
        stored."""
        write = change.write
        if write.resource == QUOTAS and change.now is not None and change.before is not None:
            place = place_of(change.now)
            self._charges.pop(place, None)
            if write.by.startswith(_API_SERVER):
                self._charges[place] = f": {write.by} charged it last, at revision {write.revision}"
                self._charged.append(place)
        elif self._charged and change.before is None and change.now is not None:
            for place in self._charged:
                if place[0] == write.namespace and place in self._charges:
                    self._charges[place] += f", before {named(change.now)} was created"
            self._charged = [place for place in self._charged if place[0] != write.namespace]

    def at_end(self, cluster: Cluster, evidence: Evidence, *, at_rest: bool) -> Iterator[str]:
        if not at_rest or self._measure is None or not cluster.running("controller-manager"):
            return

        def listing(resource: GroupResource, namespace: str) -> Iterable[Object]:
            key = f"{resource.resource}.{resource.group}" if resource.group else resource.resource
            return [dict(obj) for obj in cluster.all(key) if place_of(obj)[0] == namespace]

        for quota in cluster.all(QUOTAS):
            used = _used(quota)
            for name, quantity in sorted(self._measure(dict(quota), listing).items()):
                if used.get(name) != quantity:
                    told = used[name].canonical() if name in used else "nothing"
                    charge = self._charges.get(place_of(quota), "")
                    yield (
                        f"{named(quota)} says that {told} of {name} is used;"
                        f" it is {quantity.canonical()}{charge}"
                    )


def _used(quota: ObjectView) -> dict[str, Quantity]:
    return {
        name: Quantity.of(value) for name, value in ((quota.get("status") or {}).get("used") or {}).items()
    }
