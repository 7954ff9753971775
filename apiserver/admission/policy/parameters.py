"""Finds the parameters that a binding gives its policy.

Source: k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_dispatcher.go (CollectParams), 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery.errors import not_found
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import GroupVersionKind, Resource
from kubeskew.apimachinery.selectors.labels import LabelSelector
from kubeskew.apiserver.admission.dynamic.versions import convert
from kubeskew.apiserver.admission.services import AdmissionServices


class ConfigurationError(Exception):
    """A policy or a binding cannot be used; its failurePolicy decides."""


def param_resource(services: AdmissionServices, kind: Object | None) -> Resource | None:
    """Returns the resource of `spec.paramKind`, None if there is none; raises ConfigurationError."""
    if kind is None:
        return None
    group, _, version = (kind.get("apiVersion") or "").rpartition("/")
    gvk = GroupVersionKind(group, version, kind.get("kind") or "")
    found = services.table.by_kind(*gvk)
    if found is None or services.table.resource(group, version, found.plural) is None:
        named = f"{group}/{version}, Kind={gvk.kind}"
        raise ConfigurationError(f"failed to find resource referenced by paramKind: '{named}'")
    return found


async def collect(
    services: AdmissionServices, resource: Resource | None, reference: Object | None, namespace: str
) -> list[Object | None]:
    """Returns the parameters, [None] where the policy or the binding has none; raises ConfigurationError."""
    if resource is None or reference is None:
        return [None]
    within = _namespace(resource, reference, namespace)
    found = [
        await convert(services, obj, resource) for obj in _selected(services, resource, reference, within)
    ]
    if not found and not services.features.admission.parameter_selectors:
        raise ConfigurationError(not_found(resource.group_resource, reference.get("name") or "").message)
    if not found and reference.get("parameterNotFoundAction") == "Deny":
        raise ConfigurationError("no params found for policy binding with `Deny` parameterNotFoundAction")
    return list(found)


def _namespace(resource: Resource, reference: Object, namespace: str) -> str:
    named = reference.get("namespace") or ""
    if not resource.namespaced:
        if named:
            raise ConfigurationError(
                "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
            )
        return ""
    if not named and not namespace:
        raise ConfigurationError(
            "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
        )
    return named or namespace


def _selected(
    services: AdmissionServices, resource: Resource, reference: Object, namespace: str
) -> Iterator[Object]:
    registry = services.registry(resource)
    name, selector = reference.get("name"), reference.get("selector")
    if name:
        if selector is not None:
            raise ConfigurationError("paramRef.name and paramRef.selector are mutually exclusive")
        entry = services.store.get(registry.key(namespace, name))
        if entry is not None:
            yield registry.object(entry)
        return
    if selector is None:
        raise ConfigurationError("one of name or selector must be provided")
    wanted = LabelSelector.from_object(selector)
    within = namespace if resource.namespaced else None
    for entry in services.store.list(registry.resource.storage_resource, within).entries:
        obj = registry.object(entry)
        if wanted.matches(obj["metadata"].get("labels")):
            yield obj
