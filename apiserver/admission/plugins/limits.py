"""Checks one limit range: minimum, maximum and ratio per container, pod and volume claim.

Where upstream walks a map in no order, names are in theirs.
Source: k8s.io/kubernetes/plugin/pkg/admission/limitranger/admission.go, 1.36.
"""

from collections.abc import Iterator, Sequence

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import ZERO, Quantity
from kubeskew.apimachinery.quota.amounts import Amounts, amounts
from kubeskew.apimachinery.quota.pod_resources import PodResources

_MAX_MILLI = ((1 << 63) - 1) // 1000  # what can still be compared in thousandths


def pod_errors(limits: Sequence[Object], pod: Object, sums: PodResources) -> Iterator[str]:
    """Yields a text for each limit that a pod breaks."""
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
    """Yields a text for each limit that a volume claim breaks; only its requests count."""
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
    """Decides whether `one` is more than `other`; `third` only has a say in the precision."""
    mine, theirs = _numbers(one, other, third or ZERO)
    return mine > theirs


def _numbers(one: Quantity, other: Quantity, third: Quantity) -> tuple[int, int]:
    """Returns the first two in thousandths, rounded up, or whole where one of the three is too large for
    that.
    """
    if all(quantity.value() <= _MAX_MILLI for quantity in (one, other, third)):
        return one.milli_value(), other.milli_value()
    return one.value(), other.value()
