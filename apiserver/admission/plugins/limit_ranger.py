"""Defaults the amounts of containers, and enforces minimum, maximum and ratio, by limit ranges.

Where upstream walks a map in no order, names are sorted here.

Source: k8s.io/kubernetes/plugin/pkg/admission/limitranger/admission.go, 1.36.
"""

from collections.abc import Iterator, Sequence

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import ZERO, Quantity
from kubeskew.apimachinery.quota.amounts import Amounts, amounts
from kubeskew.apimachinery.quota.pods import PodResources
from kubeskew.apiserver.admission import CREATE, UPDATE, Attributes, Plugin
from kubeskew.apiserver.admission.services import AdmissionServices
from kubeskew.apiserver.caching.store_cache import ParsedObjects

_MAX_MILLI = ((1 << 63) - 1) // 1000  # what can still be compared in thousandths
ANNOTATION = "kubernetes.io/limit-ranger"
_REMEMBERED = 1000


def pod_errors(limits: Sequence[Object], pod: Object, sums: PodResources) -> Iterator[str]:
    spec = pod["spec"]
    for limit in limits:
        if limit.get("type") == "Container":
            for field in ("containers", "initContainers"):
                for container in spec.get(field) or ():
                    resources = container.get("resources") or {}
                    requests, most = amounts(resources.get("requests")), amounts(resources.get("limits"))
                    yield from _errors(limit, requests, most)
        elif limit.get("type") == "Pod":
            yield from _errors(limit, sums.requests(pod), sums.limits(pod))


def claim_errors(limits: Sequence[Object], claim: Object) -> Iterator[str]:
    requests = amounts((claim["spec"].get("resources") or {}).get("requests"))
    for limit in limits:
        if limit.get("type") != "PersistentVolumeClaim":
            continue
        for name, enforced in sorted(amounts(limit.get("min")).items()):
            yield from _least(limit, name, enforced, requests, {})
        for name, enforced in sorted(amounts(limit.get("max")).items()):
            start = _start("maximum", limit, name, enforced)
            request = requests.get(name)
            if request is None:
                yield f"{start}.  No request is specified"
            elif _more(request, enforced):
                yield f"{start}, but request is {request}"


def _errors(limit: Object, requests: Amounts, most: Amounts) -> Iterator[str]:
    for name, enforced in sorted(amounts(limit.get("min")).items()):
        yield from _least(limit, name, enforced, requests, most)
    for name, enforced in sorted(amounts(limit.get("max")).items()):
        yield from _most(limit, name, enforced, requests, most)
    for name, enforced in sorted(amounts(limit.get("maxLimitRequestRatio")).items()):
        yield from _ratio(limit, name, enforced, requests, most)


def _start(which: str, limit: Object, name: str, enforced: Quantity) -> str:
    return f"{which} {name} usage per {limit.get('type')} is {enforced}"


def _least(limit: Object, name: str, enforced: Quantity, requests: Amounts, limits: Amounts) -> Iterator[str]:
    start, request, most = _start("minimum", limit, name, enforced), requests.get(name), limits.get(name)
    if request is None:
        yield f"{start}.  No request is specified"
    elif _more(enforced, request, most):
        yield f"{start}, but request is {request}"
    elif most is not None and _more(enforced, most, request):
        yield f"{start}, but limit is {most}"


def _most(limit: Object, name: str, enforced: Quantity, requests: Amounts, limits: Amounts) -> Iterator[str]:
    start, request, most = _start("maximum", limit, name, enforced), requests.get(name), limits.get(name)
    if most is None:
        yield f"{start}.  No limit is specified"
    elif _more(most, enforced, request):
        yield f"{start}, but limit is {most}"
    elif request is not None and _more(request, enforced, most):
        yield f"{start}, but request is {request}"


def _ratio(limit: Object, name: str, enforced: Quantity, requests: Amounts, limits: Amounts) -> Iterator[str]:
    start = f"{name} max limit to request ratio per {limit.get('type')} is {enforced}, but"
    request, most = _numbers(requests.get(name, ZERO), limits.get(name, ZERO), enforced)
    if not request:
        yield f"{start} no request is specified or request is 0"
    elif not most:
        yield f"{start} no limit is specified or limit is 0"
    elif _exceeds(most / request, enforced):
        yield f"{start} provided ratio is {most / request:f}"


def _exceeds(ratio: float, enforced: Quantity) -> bool:
    if enforced.value() <= _MAX_MILLI:
        return ratio * 1000 > enforced.milli_value()
    return ratio > enforced.value()


def _more(one: Quantity, other: Quantity, third: Quantity | None = None) -> bool:
    """`third` matters only for the precision of the comparison."""
    mine, theirs = _numbers(one, other, third or ZERO)
    return mine > theirs


def _numbers(one: Quantity, other: Quantity, third: Quantity) -> tuple[int, int]:
    """Both numbers are in thousandths, rounded up, or whole where one of the three is too large for that."""
    if all(quantity.value() <= _MAX_MILLI for quantity in (one, other, third)):
        return one.milli_value(), other.milli_value()
    return one.value(), other.value()


class LimitRanger(Plugin):
    """Looks at new pods, pods being resized, and volume claims."""

    operations = frozenset({CREATE, UPDATE})
    resources = frozenset({"pods", "persistentvolumeclaims"})
    subresources = frozenset({"", "resize"})

    def __init__(self, services: AdmissionServices) -> None:
        self._store = services.store
        self._sums = PodResources(pod_level=services.features.pods.pod_resources, overhead=False)
        self._parsed = ParsedObjects(_REMEMBERED)

    async def admit(self, attributes: Attributes) -> None:
        pod = attributes.object
        if pod is None or attributes.resource.storage_resource != "pods":
            return
        for range_ in self._ranges(attributes):
            _fill_in(pod, range_["spec"].get("limits") or ())

    async def validate(self, attributes: Attributes) -> None:
        obj = attributes.object
        if obj is None:
            return
        is_pod = attributes.resource.storage_resource == "pods"
        for range_ in self._ranges(attributes):
            limits = range_["spec"].get("limits") or ()
            found = pod_errors(limits, obj, self._sums) if is_pod else claim_errors(limits, obj)
            texts = list(dict.fromkeys(found))
            if texts:
                raise attributes.refuse(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")

    def _ranges(self, attributes: Attributes) -> Sequence[Object]:
        """Limit ranges stand in order of name; a pod or claim that is being deleted has none."""
        old = attributes.old
        if old is not None and old["metadata"].get("deletionTimestamp"):
            return ()
        is_pod = attributes.resource.storage_resource == "pods"
        if is_pod and (attributes.operation == UPDATE) != (attributes.subresource == "resize"):
            return ()
        if not is_pod and attributes.subresource:
            return ()
        entries = self._store.list("limitranges", attributes.namespace).entries
        return [self._parsed.of(entry) for entry in entries]


def _fill_in(pod: Object, limits: Sequence[Object]) -> None:
    requests: dict[str, str] = {}
    most: dict[str, str] = {}
    for limit in limits:
        if limit.get("type") == "Container":
            requests.update(limit.get("defaultRequest") or {})
            most.update(limit.get("default") or {})
    spec, notes = pod["spec"], []
    for field, what in (("containers", "container"), ("initContainers", "init container")):
        for container in spec.get(field) or ():
            end = f"for {what} {container.get('name') or ''}"
            resources = container.setdefault("resources", {})
            limited = _complete(resources, "limits", most)
            notes += [f"{text} request {end}" for text in _complete(resources, "requests", requests)]
            notes += [f"{text} limit {end}" for text in limited]
    if notes:
        annotations = pod["metadata"]["annotations"] = dict(pod["metadata"].get("annotations") or {})
        annotations[ANNOTATION] = f"LimitRanger plugin set: {'; '.join(notes)}"


def _complete(resources: Object, field: str, defaults: dict[str, str]) -> Iterator[str]:
    missing = sorted(name for name in defaults if name not in (resources.get(field) or {}))
    if missing:
        added = {name: defaults[name] for name in missing}
        resources[field] = {**(resources.get(field) or {}), **added}
        return iter((", ".join(missing),))
    return iter(())
