"""Judges quotas: I09 quota-exact."""

from collections.abc import Callable, Iterable, Iterator

from kubeskew.apimachinery.errors import GroupResource
from kubeskew.apimachinery.objects import Object, ObjectView
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.conformance.invariants.cluster import Change, Cluster, named, place_of
from kubeskew.conformance.invariants.invariant import Evidence

QUOTAS = "resourcequotas"

# Measures what a quota limits, from the objects of a resource in a namespace, or in none.
Measure = Callable[[Object, Callable[[GroupResource, str], Iterable[Object] | None]], dict[str, Quantity]]


class QuotaExact:
    """I09: what a quota says is used is what is there, and is never raised beyond what it allows."""

    code = "I09"
    name = "quota-exact"

    def __init__(self, measure: Measure | None = None) -> None:
        """`measure` is of the version and gates of the quota controller; without it sums are not checked."""
        self._measure = measure

    def see(self, change: Change, cluster: Cluster) -> Iterator[str]:
        if change.write.resource != QUOTAS or change.now is None or change.before is None:
            return
        if not change.write.by.startswith("kube-apiserver"):
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
                    yield f"{named(quota)} says that {told} of {name} is used; it is {quantity.canonical()}"


def _used(quota: ObjectView) -> dict[str, Quantity]:
    return {
        name: Quantity.of(value) for name, value in ((quota.get("status") or {}).get("used") or {}).items()
    }
