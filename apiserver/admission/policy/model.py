"""Holds policies with their bindings, as made of the stored objects.

Source: k8s.io/apiserver/pkg/admission/plugin/policy/generic/{policy_source,policy_matcher}.go, 1.36.
"""

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.admission.dynamic.matching import Criteria
from kubeskew.apiserver.admission.services import AdmissionServices
from kubeskew.apiserver.caching.store_cache import DerivedFromStore

E = TypeVar("E")
_GROUP = "admissionregistration.k8s.io"


class Binding(NamedTuple):
    """A binding; `criteria` is None if it does not narrow the policy."""

    name: str
    spec: Object
    criteria: Criteria | None


class Policy(Generic[E]):
    """A policy; its `evaluator` is compiled when a request first matches."""

    def __init__(self, obj: Object, bindings: list[Binding], make: Callable[[Object], E]) -> None:
        self.name: str = obj["metadata"]["name"]
        self.spec: Object = obj.get("spec") or {}
        self.bindings = bindings
        match = self.spec.get("matchConstraints") or {}
        self.criteria = _criteria(match)
        self._make = make
        self._evaluator: E | None = None

    @property
    def evaluator(self) -> E:
        if self._evaluator is None:
            self._evaluator = self._make(self.spec)
        return self._evaluator

    @property
    def ignores_failures(self) -> bool:
        return bool(self.spec.get("failurePolicy") == "Ignore")


def _criteria(match: Object) -> Criteria:
    return Criteria(match.get("resourceRules") or None, match, match.get("excludeResourceRules") or ())


class Policies(Generic[E]):
    """The policies of one kind that have bindings, by name."""

    def __init__(self, services: AdmissionServices, plural: str, make: Callable[[Object], E]) -> None:
        self._make_evaluator = make
        names = [f"{plural}.{_GROUP}", f"{plural.removesuffix('ies')}ybindings.{_GROUP}"]
        self._policies = DerivedFromStore(services.store, names, self._make, services.codec.current)

    def all(self) -> list[Policy[E]]:
        return self._policies.get()

    def _make(self, policies: list[Object], bindings: list[Object]) -> list[Policy[E]]:
        bound: dict[str, list[Binding]] = {}
        for obj in sorted(bindings, key=_name):
            spec = obj.get("spec") or {}
            match = spec.get("matchResources")
            criteria = None if match is None else _criteria(match)
            bound.setdefault(spec.get("policyName") or "", []).append(Binding(_name(obj), spec, criteria))
        return [
            Policy(obj, bound[_name(obj)], self._make_evaluator)
            for obj in sorted(policies, key=_name)
            if _name(obj) in bound
        ]


def _name(obj: Object) -> str:
    name: str = obj["metadata"]["name"]
    return name
