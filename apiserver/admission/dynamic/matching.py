"""Decides whether a webhook or a policy concerns a request, and as which resource it is shown the request.

Source: k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/{rules,namespace,object} and
plugin/webhook/generic/webhook.go (ShouldCallHook), 1.36.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.errors import GroupResource, StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import GroupVersionKind, Resource, ResourceTable
from kubeskew.apimachinery.selectors.labels import EVERYTHING, LabelSelector, SelectorError
from kubeskew.apiserver.admission import CREATE, UPDATE, Attributes
from kubeskew.apiserver.storage.interfaces import Store
from kubeskew.apiserver.storage.records import Key
from kubeskew.apiserver.unreadable import object_of

GROUP = "admissionregistration.k8s.io"
# What configures admission is not subject to it: a mistake could never be put right.
EXEMPT = frozenset(
    f"{plural}.{GROUP}"
    for plural in (
        "validatingwebhookconfigurations",
        "mutatingwebhookconfigurations",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
    )
)
# What is answered and never stored; webhooks are not asked about it from 1.37 on.
REVIEWS = frozenset(
    {
        "tokenreviews.authentication.k8s.io",
        "selfsubjectreviews.authentication.k8s.io",
        "subjectaccessreviews.authorization.k8s.io",
        "localsubjectaccessreviews.authorization.k8s.io",
        "selfsubjectaccessreviews.authorization.k8s.io",
        "selfsubjectrulesreviews.authorization.k8s.io",
    }
)
_NAMESPACES = "namespaces"


class Invocation(NamedTuple):
    """Holds the resource as which a request is shown (one that a rule names, or its equivalent), and its
    kind.
    """

    resource: Resource
    subresource: str
    kind: GroupVersionKind


@dataclass(frozen=True, slots=True)
class Rule:
    """Holds one of `rules` or `resourceRules`; `names` only of the latter, empty is any."""

    operations: tuple[str, ...]
    groups: tuple[str, ...]
    versions: tuple[str, ...]
    resources: tuple[tuple[str, str], ...]
    scope: str
    names: tuple[str, ...]

    @classmethod
    def of(cls, rule: Mapping[str, Any]) -> "Rule":
        split = [
            (resource.partition("/")[0], resource.partition("/")[2])
            for resource in rule.get("resources") or ()
        ]
        return cls(
            tuple(rule.get("operations") or ()),
            tuple(rule.get("apiGroups") or ()),
            tuple(rule.get("apiVersions") or ()),
            tuple(split),
            rule.get("scope") or "*",
            tuple(rule.get("resourceNames") or ()),
        )

    def matches(self, attributes: Attributes, resource: Resource) -> bool:
        """Decides whether the rule is about this request, taken as one of `resource`."""
        return (
            self._in_scope(attributes, resource)
            and _listed(self.operations, attributes.operation)
            and _listed(self.groups, resource.group)
            and _listed(self.versions, resource.version)
            and self._names_resource(resource.plural, attributes.subresource)
            and (not self.names or attributes.name in self.names)
        )

    def _in_scope(self, attributes: Attributes, resource: Resource) -> bool:
        if self.scope == "*":
            return True
        of_cluster = resource.storage_resource == _NAMESPACES or not attributes.namespace
        return of_cluster == (self.scope == "Cluster")

    def _names_resource(self, plural: str, subresource: str) -> bool:
        return any(
            resource in {"*", plural} and sub in {"*", subresource} for resource, sub in self.resources
        )


def _listed(items: Sequence[str], wanted: str) -> bool:
    return "*" in items or wanted in items


class Criteria:
    """Holds the requests that a webhook, a policy or a binding is about: rules, exclusions, selectors,
    matchPolicy.
    """

    def __init__(
        self,
        rules: Sequence[Mapping[str, Any]] | None,
        match: Mapping[str, Any],
        excluded: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self._rules = None if rules is None else [Rule.of(rule) for rule in rules]
        self._excluded = [Rule.of(rule) for rule in excluded]
        self._equivalent = (match.get("matchPolicy") or "Equivalent") == "Equivalent"
        self._namespaces = _selector(match.get("namespaceSelector"))
        self._objects = _selector(match.get("objectSelector"))

    def match(self, attributes: Attributes, table: ResourceTable, store: Store) -> Invocation | None:
        """Returns the form in which the request is to be shown, None if it does not match; raises 404 and
        500.
        """
        problem: StatusError | None = None
        try:
            if not _in_namespaces(attributes, self._namespaces, store):
                return None
        except StatusError as error:
            problem = error  # reported only if the rules match
        if not _is_selected(attributes, self._objects):
            return None
        if self._find(self._excluded, attributes, table) is not None:
            return None
        found = requested(attributes) if self._rules is None else self._find(self._rules, attributes, table)
        if found is not None and problem is not None:
            raise problem
        return found

    def _find(self, rules: Sequence[Rule], attributes: Attributes, table: ResourceTable) -> Invocation | None:
        asked = requested(attributes)
        if any(rule.matches(attributes, asked.resource) for rule in rules):
            return asked
        if not self._equivalent or not rules:
            return None
        others = list(equivalents(asked.resource, attributes.subresource, table))
        for rule in rules:
            for other in others:
                if rule.matches(attributes, other):
                    return Invocation(other, attributes.subresource, kind_of(other, attributes.subresource))
        return None


def requested(attributes: Attributes) -> Invocation:
    """Returns the request as the client made it."""
    resource = attributes.requested or attributes.resource
    return Invocation(resource, attributes.subresource, kind_of(resource, attributes.subresource))


def kind_of(resource: Resource, subresource: str) -> GroupVersionKind:
    """Returns the kind of the body of a resource or subresource."""
    found = resource.subresources.get(subresource)
    return found.gvk if found is not None else resource.gvk


def equivalents(resource: Resource, subresource: str, table: ResourceTable) -> Iterator[Resource]:
    """Yields the same objects served under other groups and versions."""
    for group, versions in table.groups():
        for version in versions:
            other = table.resource(group, version, resource.plural)
            if other is None or other.storage_resource != resource.storage_resource:
                continue
            if (group, version) != (resource.group, resource.version) and (
                not subresource or subresource in other.subresources
            ):
                yield other


def _selector(selector: Mapping[str, Any] | None) -> LabelSelector | str:
    """Returns the selector, everything if there is none; what is wrong with it as text."""
    if selector is None:
        return EVERYTHING
    try:
        return LabelSelector.from_object(selector)
    except SelectorError as error:
        return str(error)


def _in_namespaces(attributes: Attributes, selector: LabelSelector | str, store: Store) -> bool:
    namespace = attributes.namespace
    of_namespaces = attributes.resource.storage_resource == _NAMESPACES
    if not namespace and not of_namespaces:
        return True  # a namespaceSelector never exempts cluster-scoped objects
    if isinstance(selector, str):
        raise errors.internal(selector)
    if selector.is_empty():
        return True
    if of_namespaces and not attributes.subresource and attributes.operation in {CREATE, UPDATE}:
        return selector.matches((attributes.object or {}).get("metadata", {}).get("labels"))
    return selector.matches(namespace_object(store, namespace or attributes.name)["metadata"].get("labels"))


def namespace_object(store: Store, name: str) -> Object:
    """Returns a namespace as stored; raises 404."""
    entry = store.get(Key(_NAMESPACES, "", name))
    if entry is None:
        raise errors.not_found(GroupResource("", _NAMESPACES), name)
    found: Object = object_of(entry)
    return found


def _is_selected(attributes: Attributes, selector: LabelSelector | str) -> bool:
    if isinstance(selector, str):
        raise errors.internal(selector)
    if selector.is_empty():
        return True
    return any(
        obj is not None and "metadata" in obj and selector.matches(obj["metadata"].get("labels"))
        for obj in (attributes.object, attributes.old)
    )
