"""Checks that a change of the placement of a pod with scheduling gates only narrows it.

Source: core validation (validateNodeSelectorMutation, validateNodeAffinityMutation), 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery.field import FieldError, index, invalid
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.shared.internal_values import node_term

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_TERMS = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"


def narrowing_errors(new: Object, old: Object) -> Iterator[FieldError]:
    """Checks that selectors are only added, to the node selector and to each term."""
    after, before = new.get("nodeSelector") or {}, old.get("nodeSelector") or {}
    if any(after.get(name) != value for name, value in before.items()):
        text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        yield invalid("spec.nodeSelector", after, text)
    if _node_affinity(new) != _node_affinity(old):
        yield from _term_errors(_terms(new), _terms(old))


def _term_errors(new: list[Object], old: list[Object]) -> Iterator[FieldError]:
    if old and len(old) != len(new):
        text = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        yield invalid(_TERMS, [node_term(term) for term in new], text)
        return
    for position, before in enumerate(old):
        if not _only_grows(new[position], before):
            text = "only additions are allowed (no mutations or deletions)"
            yield invalid(index(_TERMS, position), node_term(new[position]), text)


def _only_grows(new: Object, old: Object) -> bool:
    fields = ("matchExpressions", "matchFields")
    if not any(old.get(name) for name in fields):
        return not any(new.get(name) for name in fields)
    return all((new.get(name) or [])[: len(old[name])] == old[name] for name in fields if old.get(name))


def _node_affinity(spec: Object) -> Object:
    return (spec.get("affinity") or {}).get("nodeAffinity") or {}


def _terms(spec: Object) -> list[Object]:
    terms: list[Object] = (_node_affinity(spec).get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    return terms


def put_back_placement(munged: Object, old: Object) -> None:
    """Gives `munged` the placement of `old`, except affinity to pods."""
    munged.pop("nodeSelector", None)
    if "nodeSelector" in old:
        munged["nodeSelector"] = old["nodeSelector"]
    before = (old.get("affinity") or {}).get("nodeAffinity")
    after = dict(munged.get("affinity") or {})
    after.pop("nodeAffinity", None)
    if before is not None:
        after["nodeAffinity"] = before
    if after or "affinity" in old:
        munged["affinity"] = after
    else:
        munged.pop("affinity", None)
