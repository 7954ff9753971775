"""Rules of priority classes, runtime classes and storage classes.

Source: pkg/apis/{scheduling,node,storage}/validation/validation.go, 1.36.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from kubeskew.apimachinery.errors import Object
from kubeskew.apimachinery.field import (
    FieldError,
    child,
    duplicate,
    forbidden,
    index,
    invalid,
    not_supported,
    required,
    too_long,
)
from kubeskew.apimachinery.validation import names
from kubeskew.apimachinery.validation.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.validation import amounts
from kubeskew.apiserver.registry.validation.repeats import repeats
from kubeskew.apiserver.registry.validation.tolerations import toleration_errors

SYSTEM_PRIORITIES = {"system-node-critical": 2000001000, "system-cluster-critical": 2000000000}
_SYSTEM_PREFIX = "system-"
_MAX_PRIORITY = 1000000000
_PREEMPTION = ("Never", "PreemptLowerPriority")
_MOST_REPEATED = 100_000  # faults of a storage class that say the same of equal terms, about
_RECLAIM = ("Delete", "Retain")
_BINDING = ("Immediate", "WaitForFirstConsumer")
_MAX_PARAMETERS = 512
_MAX_PARAMETER_BYTES = 256 * 1024


def priority_class_errors(obj: Object) -> Iterator[FieldError]:
    name, value = obj["metadata"].get("name") or "", obj.get("value") or 0
    if name.startswith(_SYSTEM_PREFIX):
        problem = _system_problem(name, value, is_default=bool(obj.get("globalDefault")))
        if problem:
            text = f"priority class names with '{_SYSTEM_PREFIX}' prefix are reserved for system use only."
            yield forbidden("metadata.name", f"{text} error: {problem}")
    elif value > _MAX_PRIORITY:
        yield forbidden("value", f"maximum allowed value of a user defined priority is {_MAX_PRIORITY}")
    policy = obj.get("preemptionPolicy")
    if policy == "":
        yield required("preemptionPolicy")
    elif policy is not None and policy not in _PREEMPTION:
        yield not_supported("preemptionPolicy", policy, _PREEMPTION)


def _system_problem(name: str, value: int, *, is_default: bool) -> str:
    """What keeps a class from being one of the system's own."""
    known = SYSTEM_PRIORITIES.get(name)
    if known is None:
        return f"{name} is not a known system priority class"
    if value != known:
        return f"value of {name} PriorityClass must be {known}"
    return f"globalDefault of {name} PriorityClass must be false" if is_default else ""


def priority_class_update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    if (new.get("value") or 0) != (old.get("value") or 0):
        yield forbidden("value", "may not be changed in an update.")
    if new.get("preemptionPolicy") != old.get("preemptionPolicy"):
        yield invalid("preemptionPolicy", new.get("preemptionPolicy"), IMMUTABLE)


def runtime_class_errors(obj: Object) -> Iterator[FieldError]:
    handler = obj.get("handler") or ""
    yield from (invalid("handler", handler, text) for text in names.dns1123_label(handler))
    overhead = obj.get("overhead")
    if overhead is not None:
        limits = {"limits": overhead.get("podFixed") or {}}  # checked, and shown, as a container's limits
        yield from amounts.requirement_errors(limits, set(), "overhead")
    scheduling = obj.get("scheduling")
    if scheduling is not None:
        yield from _scheduling_errors(scheduling, "scheduling")


def _scheduling_errors(scheduling: Object, path: str) -> Iterator[FieldError]:
    at = child(path, "nodeSelector")
    selector = scheduling.get("nodeSelector") or {}
    for name in sorted(selector):
        yield from (invalid(at, name, text) for text in names.qualified_name(name))
        yield from (invalid(at, selector[name], text) for text in names.label_value(selector[name]))
    tolerations = scheduling.get("tolerations") or []
    at = child(path, "tolerations")
    yield from toleration_errors(tolerations, at)
    for position in sorted(repeats(frozenset(toleration.items()) for toleration in tolerations)):
        yield duplicate(index(at, position), tolerations[position])


def runtime_class_update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    if new.get("handler") != old.get("handler"):
        yield invalid("handler", new.get("handler") or "", IMMUTABLE)


def storage_class_errors(obj: Object) -> Iterator[FieldError]:
    provisioner = obj.get("provisioner") or ""
    if not provisioner:
        yield required("provisioner", provisioner)
    else:
        texts = names.qualified_name(provisioner.lower())
        yield from (invalid("provisioner", provisioner, text) for text in texts)
    yield from _parameter_errors(obj.get("parameters") or {}, "parameters")
    policy = obj.get("reclaimPolicy") or ""
    if policy and policy not in _RECLAIM:
        yield not_supported("reclaimPolicy", policy, _RECLAIM)
    mode = obj.get("volumeBindingMode")
    if mode is None:
        yield required("volumeBindingMode")
    elif mode not in _BINDING:
        yield not_supported("volumeBindingMode", mode, _BINDING)
    yield from _topology_errors(obj.get("allowedTopologies") or [], "allowedTopologies")


def _parameter_errors(parameters: dict[str, str], path: str) -> Iterator[FieldError]:
    if len(parameters) > _MAX_PARAMETERS:
        yield too_long(path, _MAX_PARAMETERS)
        return
    if "" in parameters:
        yield invalid(path, "", "field can not be empty.")
    size = sum(len(name.encode()) + len(value.encode()) for name, value in parameters.items())
    if size > _MAX_PARAMETER_BYTES:
        yield too_long(path, _MAX_PARAMETER_BYTES)


def _topology_errors(topologies: list[Object], path: str) -> Iterator[FieldError]:
    """Terms that differ, of keys that differ, of values that differ.

    An empty term equals what upstream's list of those before begins with: one nil for each term. So thousands
    of empty terms have millions of equal faults: after many, each term is said once, as the message says it.
    """
    before: Counter[frozenset[Any]] = Counter({frozenset(): len(topologies)})
    told = 0
    for position, term in enumerate(topologies):
        at = child(index(path, position), "matchLabelExpressions")
        keys: set[str] = set()
        for number, expression in enumerate(term.get("matchLabelExpressions") or []):
            where, name = index(at, number), expression.get("key") or ""
            yield from _values_errors(expression.get("values") or [], child(where, "values"))
            yield from (invalid(child(where, "key"), name, text) for text in names.qualified_name(name))
            if name in keys:
                yield duplicate(child(where, "key"), name)
            keys.add(name)
        canonical = _canonical(term)
        equal = before[canonical] if told < _MOST_REPEATED else min(before[canonical], 1)
        yield from (duplicate(at, "") for _ in range(equal))
        before[canonical] += 1
        told += equal


def _values_errors(values: list[str], path: str) -> Iterator[FieldError]:
    if not values:
        yield required(path)
    for position in sorted(repeats(values)):
        yield duplicate(index(path, position), values[position])


def _canonical(term: Object) -> frozenset[Any]:
    expressions = term.get("matchLabelExpressions") or []
    by_key = {one.get("key") or "": tuple(sorted(one.get("values") or [])) for one in expressions}
    return frozenset(by_key.items())


def storage_class_update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    for name in ("parameters", "provisioner", "reclaimPolicy"):
        if (new.get(name) or None) != (old.get(name) or None):
            yield forbidden(name, f"updates to {name} are forbidden.")
    if new.get("volumeBindingMode") != old.get("volumeBindingMode"):
        yield invalid("volumeBindingMode", new.get("volumeBindingMode"), IMMUTABLE)
