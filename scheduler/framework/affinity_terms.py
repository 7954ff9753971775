"""A pod's affinity to other pods, parsed once.

Source: k8s.io/kubernetes/pkg/scheduler/framework/types.go, AffinityTerm, 1.36.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kubeskew.apimachinery.objects import ObjectView
from kubeskew.apimachinery.selectors.labels import NOTHING, LabelSelector, SelectorError

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """A term of affinity: pods by namespace and labels, and the node label that defines "near"."""

    namespaces: frozenset[str]
    selector: LabelSelector
    topology_key: str
    namespace_selector: LabelSelector
    weight: int = 0  # of a preferred term

    @classmethod
    def of(cls, namespace: str, term: ObjectView, weight: int = 0) -> "AffinityTerm":
        """Parses a term; `namespace` is the pod's, for terms that name none.

        A bad selector matches nothing.
        """
        names = frozenset(term.get("namespaces") or ())
        if not names and term.get("namespaceSelector") is None:
            names = frozenset((namespace,))
        selector, namespaces = _selector(term.get("labelSelector")), _selector(term.get("namespaceSelector"))
        return cls(names, selector, term["topologyKey"], namespaces, weight)

    @property
    def key(self) -> str:
        """Returns the term as text; namespace selectors have been resolved to some, all or none."""
        everywhere = "*" if self.namespace_selector.is_empty() else ""
        nobody = "" if self.selector.selectable else "!"
        return f"{everywhere}{sorted(self.namespaces)}{nobody}{self.selector}"

    def matches(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
        """Returns whether a pod with these labels, in a namespace with those, matches."""
        if namespace not in self.namespaces and not self.namespace_selector.matches(namespace_labels):
            return False
        return self.selector.matches(labels)


def _selector(selector: ObjectView | None) -> LabelSelector:
    try:
        return LabelSelector.from_object(selector)
    except SelectorError:
        return NOTHING


def _required(namespace: str, part: ObjectView | None) -> tuple[AffinityTerm, ...]:
    return tuple(AffinityTerm.of(namespace, term) for term in (part or {}).get(_REQUIRED) or ())


def _preferred(namespace: str, part: ObjectView | None) -> tuple[AffinityTerm, ...]:
    return tuple(
        AffinityTerm.of(namespace, weighted["podAffinityTerm"], weighted["weight"])
        for weighted in (part or {}).get(_PREFERRED) or ()
    )


@dataclass(frozen=True, slots=True)
class PodAffinity:
    """All four kinds of terms."""

    required: Sequence[AffinityTerm] = ()
    required_anti: Sequence[AffinityTerm] = ()
    preferred: Sequence[AffinityTerm] = ()
    preferred_anti: Sequence[AffinityTerm] = ()

    @classmethod
    def of(cls, namespace: str, affinity: ObjectView) -> "PodAffinity":
        """Parses a pod's `spec.affinity`."""
        near, far = affinity.get("podAffinity"), affinity.get("podAntiAffinity")
        if not near and not far:
            return NO_AFFINITY
        return cls(
            _required(namespace, near),
            _required(namespace, far),
            _preferred(namespace, near),
            _preferred(namespace, far),
        )

    @property
    def some(self) -> bool:
        return self is not NO_AFFINITY


NO_AFFINITY = PodAffinity()


def match_all(terms: Iterable[AffinityTerm], namespace: str, labels: Mapping[str, str]) -> bool:
    """Returns whether a pod matches every term, of which there must be one.

    Namespace selectors have been resolved.
    """
    found = False
    for term in terms:
        if not term.matches(namespace, labels, {}):
            return False
        found = True
    return found
