"""Matches requests with webhooks and policies, and builds what these are shown: versions, AdmissionRequest.

Sources: k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/{rules,namespace,object} and
plugin/webhook/generic/webhook.go (ShouldCallHook), 1.36; k8s.io/apiserver/pkg/admission/conversion.go and
plugin/webhook/generic/conversion.go, 1.36;
k8s.io/apiserver/pkg/admission/plugin/webhook/request/admissionreview.go, 1.36;
k8s.io/apiserver/pkg/admission/plugin/webhook/mutating/reinvocationcontext.go, 1.36.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.errors import GroupResource, StatusError, internal
from kubeskew.apimachinery.golang import decode_errors
from kubeskew.apimachinery.golang.roundtrip import WrongShape, normalise_and_report
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import GroupVersionKind, Resource, ResourceTable
from kubeskew.apimachinery.schema import Schema
from kubeskew.apimachinery.selectors.labels import EVERYTHING, LabelSelector, SelectorError
from kubeskew.apiserver.admission import CONNECT, CREATE, UPDATE, Attributes
from kubeskew.apiserver.admission.services import AdmissionServices
from kubeskew.apiserver.apiextensions.conversion import Converter, pruned, relabelled, webhook_of
from kubeskew.apiserver.storage.interfaces import Store
from kubeskew.apiserver.storage.records import Key
from kubeskew.apiserver.unreadable import object_of
from kubeskew.apiserver.user import User

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
_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


class Invocation(NamedTuple):
    """The request is shown as one of `resource`: its own, or the equivalent one that a rule names."""

    resource: Resource
    subresource: str
    kind: GroupVersionKind


@dataclass(frozen=True, slots=True)
class Rule:
    """Parsed from `rules` or `resourceRules`; only the latter have `names`, an empty list of which is any."""

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
        """The request is taken as one of `resource`, which may be an equivalent of its own."""
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
    """Rules, exclusions, selectors and matchPolicy pick the requests of a webhook, a policy or a binding."""

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
        """None if the request does not match, else the form in which it is shown; raises 404 and 500."""
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
    resource = attributes.requested or attributes.resource
    return Invocation(resource, attributes.subresource, kind_of(resource, attributes.subresource))


def kind_of(resource: Resource, subresource: str) -> GroupVersionKind:
    """Subresources may have a body of another kind, such as Scale."""
    found = resource.subresources.get(subresource)
    return found.gvk if found is not None else resource.gvk


def equivalents(resource: Resource, subresource: str, table: ResourceTable) -> Iterator[Resource]:
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
    """A missing selector selects everything; one that cannot be parsed becomes the text of its error."""
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
    """Raises 404 if there is no such namespace."""
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


class Versioned:
    """Converts the objects of one request to a version when it is first needed.

    After `replace`, all later readers see the new object, in any version.
    """

    def __init__(self, services: AdmissionServices, attributes: Attributes) -> None:
        self._services = services
        self.attributes = attributes
        self._new: dict[str, Object] = {}
        self._old: dict[str, Object] = {}

    async def object(self, invocation: Invocation) -> Object | None:
        """Callers must not change the object, nor that of `old`."""
        return await self._in_version(self.attributes.object, invocation, self._new)

    async def old(self, invocation: Invocation) -> Object | None:
        return await self._in_version(self.attributes.old, invocation, self._old)

    async def _in_version(
        self, obj: Object | None, invocation: Invocation, known: dict[str, Object]
    ) -> Object | None:
        if obj is None or not self._is_body(invocation):
            return obj
        version = invocation.resource.api_version
        found = known.get(version)
        if found is None:
            found = known[version] = await convert(self._services, obj, invocation.resource)
        return found

    def _is_body(self, invocation: Invocation) -> bool:
        """Subresources may have another body than the object: Scale, Binding."""
        return invocation.kind.kind == invocation.resource.kind

    async def replace(self, invocation: Invocation, new: Object, *, strict: bool = False) -> bool:
        """Makes `new`, in the invocation's version, the request's object; False if that changes nothing.

        Raises 500 if it does not fit its kind; with `strict` also if it has fields that its kind does not
        have.
        """
        before = await self.object(invocation)
        obj = self.attributes.object
        if obj is None or before is None:
            return False
        read = self._read(invocation, new, strict=strict)
        changed = read != before
        if not changed:
            return False
        if self._is_body(invocation):
            read = await convert(self._services, read, self.attributes.resource)
        else:
            read = copy.deepcopy(read)
        _overwrite(obj, read)
        self._new.clear()
        return True

    def _read(self, invocation: Invocation, new: Object, *, strict: bool) -> Object:
        resource = invocation.resource
        if not self._is_body(invocation):
            return new
        if (new.get("apiVersion"), new.get("kind")) != (resource.api_version, resource.kind):
            raise internal(
                f'no kind "{new.get("kind") or ""}" is registered for version '
                f'"{new.get("apiVersion") or ""}" in scheme "pkg/api/legacyscheme/scheme.go:30"'
            )
        read = pruned(new, resource) if resource.custom else _typed(new, resource.schema, strict=strict)
        read.update(apiVersion=resource.api_version, kind=resource.kind)
        return self._services.codec.default(read, resource)


def _typed(new: Object, schema: Schema, *, strict: bool) -> Object:
    """Reads and writes `new` as Go would; raises 500."""
    try:
        read, dropped = normalise_and_report(new, schema)
    except WrongShape:
        raise internal(decode_errors.explain(new, schema)) from None
    if strict and dropped:
        raise internal(f"strict decoding error: {', '.join(decode_errors.strict_errors(new, schema))}")
    return dict(read)


def _overwrite(obj: Object, new: Object) -> None:
    """Replaces the content of `obj` by that of `new`; all who hold `obj`, or its metadata, see the change."""
    metadata = obj.get("metadata")
    obj.clear()
    obj.update(new)
    if metadata is not None:
        metadata.clear()
        metadata.update(new.get("metadata") or {})
        obj["metadata"] = metadata


async def convert(services: AdmissionServices, obj: Object, resource: Resource) -> Object:
    """The result is a new object; raises 500."""
    if obj.get("apiVersion") == resource.api_version:
        return copy.deepcopy(obj)
    try:
        webhook = webhook_of(resource)
        if webhook is not None:
            converter = Converter(services.webhooks, services.environment.entropy)
            return (await converter.convert(webhook, [obj], resource))[0]
        if resource.custom:
            return relabelled(copy.deepcopy(obj), resource)
        return copy.deepcopy(services.codec.convert(obj, resource))
    except StatusError as error:
        raise internal(error.message) from error


def described(attributes: Attributes, invocation: Invocation) -> Object:
    """The AdmissionRequest has neither uid nor objects yet."""
    asked = requested(attributes)
    request: Object = {"kind": _kind(invocation), "resource": _resource(invocation.resource)}
    if invocation.subresource:
        request["subResource"] = invocation.subresource
    request |= {"requestKind": _kind(asked), "requestResource": _resource(asked.resource)}
    if asked.subresource:
        request["requestSubResource"] = asked.subresource
    if attributes.name and not attributes.collection:
        request["name"] = attributes.name
    namespace = namespace_of(attributes)
    if namespace:
        request["namespace"] = namespace
    request["operation"] = attributes.operation
    request["userInfo"] = user_info(attributes.user)
    return request


def namespace_of(attributes: Attributes) -> str:
    """Namespaces count as being in themselves."""
    if attributes.resource.storage_resource == "namespaces":
        return attributes.name
    return attributes.namespace if attributes.resource.namespaced else ""


def _kind(invocation: Invocation) -> Object:
    group, version, kind = invocation.kind
    return {"group": group, "version": version, "kind": kind}


def _resource(resource: Resource) -> Object:
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}


def user_info(user: User) -> Object:
    """The form is UserInfo of `authentication.k8s.io`, without empty fields."""
    info: Object = {"username": user.name}
    if user.uid:
        info["uid"] = user.uid
    if user.groups:
        info["groups"] = list(user.groups)
    if user.extra:
        info["extra"] = {name: list(values) for name, values in user.extra.items()}
    return info


def options_of(attributes: Attributes) -> Object | None:
    if attributes.operation == CONNECT:
        return None
    kind = _OPTIONS[attributes.operation]
    return {"kind": kind, "apiVersion": "meta.k8s.io/v1", **attributes.options}


@dataclass(slots=True)
class ReinvokeContext:
    """Those in `eligible` want another call if others change the object; those in `due` get one."""

    eligible: set[str] = field(default_factory=set)
    due: set[str] = field(default_factory=set)
    last: Object | None = None  # as the last round left the object

    def require(self) -> None:
        self.due |= self.eligible
        self.eligible.clear()
