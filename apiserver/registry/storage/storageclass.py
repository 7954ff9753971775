"""StorageClass: defaults, validation, strategy and cells of tables.

Sources: pkg/apis/storage/v1/defaults.go, pkg/apis/storage/validation/validation.go,
pkg/registry/storage/storageclass/strategy.go, 1.36.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from kubeskew.apimachinery import names
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
from kubeskew.apimachinery.golang.roundtrip import given
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.defaulting import DefaultingContext, fill_null
from kubeskew.apiserver.registry.generic.builtin import ReturnsDeletedObject, ValidatedAsNew
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.shared import selectors
from kubeskew.apiserver.registry.shared.repeats import repeats
from kubeskew.apiserver.registry.tables.cells import Cells, Subject

_MOST_REPEATED = 100_000  # errors of a storage class that say the same of equal terms, about

_RECLAIM = ("Delete", "Retain")

_BINDING = ("Immediate", "WaitForFirstConsumer")

_MAX_PARAMETERS = 512

_MAX_PARAMETER_BYTES = 256 * 1024
_DEFAULT_CLASS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def default_storage_class(obj: Object, _: DefaultingContext) -> None:
    fill_null(obj, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def storage_class_errors(obj: Object) -> Iterator[FieldError]:
    provisioner = obj.get("provisioner") or ""
    if not provisioner:
        yield required("provisioner", provisioner)
    else:
        texts = names.qualified_name(provisioner.lower())
        yield from (invalid("provisioner", provisioner.lower(), text) for text in texts)
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
    """Terms differ, and so do the keys of a term and the values of a key.

    An empty term equals what upstream's list of those before begins with: one nil for each term. So thousands
    of empty terms have millions of equal errors: after many, each term is said once, as the message says it.
    """
    before: Counter[frozenset[Any]] = Counter({frozenset(): len(topologies)})
    reported = 0
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
        equal = before[canonical] if reported < _MOST_REPEATED else min(before[canonical], 1)
        yield from (duplicate(at, "") for _ in range(equal))
        before[canonical] += 1
        reported += equal


def _values_errors(values: list[str], path: str) -> Iterator[FieldError]:
    if not values:
        yield required(path)
    for position in sorted(repeats(values)):
        yield duplicate(index(path, position), values[position])


def _canonical(term: Object) -> frozenset[Any]:
    expressions = term.get("matchLabelExpressions") or []
    by_key = {
        expression.get("key") or "": tuple(sorted(expression.get("values") or []))
        for expression in expressions
    }
    return frozenset(by_key.items())


def storage_class_update_errors(new: Object, old: Object, *, immutable: bool) -> Iterator[FieldError]:
    """A class stays; `immutable`: errors say so, of all fields alike."""
    for name in ("parameters", "provisioner", "reclaimPolicy"):
        if (new.get(name) or None) != (old.get(name) or None) and immutable:
            empty = "" if name == "provisioner" else None
            shown = given(new, name)
            yield invalid(name, empty if shown is None else shown, IMMUTABLE)
        elif (new.get(name) or None) != (old.get(name) or None):
            yield forbidden(name, f"updates to {name} are forbidden.")
    if new.get("volumeBindingMode") != old.get("volumeBindingMode"):
        yield invalid("volumeBindingMode", new.get("volumeBindingMode"), IMMUTABLE)


class StorageClassStrategy(ValidatedAsNew, ReturnsDeletedObject):
    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(storage_class_errors(obj))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        immutable = ctx.features.volumes.immutable_classes
        return list(storage_class_update_errors(new, old, immutable=immutable))

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return list(selectors.topology_warnings(obj.get("allowedTopologies") or [], "allowedTopologies"))


def storage_class_cells(subject: Subject) -> Cells:
    annotations = subject.at("metadata", "annotations") or {}
    default = any(annotations.get(name) == "true" for name in _DEFAULT_CLASS)
    return {
        "Name": subject.text("metadata", "name") + (" (default)" if default else ""),
        "Provisioner": subject.text("provisioner"),
        "ReclaimPolicy": subject.text("reclaimPolicy", default="Delete"),
        "VolumeBindingMode": subject.text("volumeBindingMode", default="Immediate"),
        "AllowVolumeExpansion": bool(subject.at("allowVolumeExpansion")),
    }
