"""Refuses owner references by which users could delete, or keep from deletion, what they have no right to.

Off unless a flag turns it on.
Source: k8s.io/kubernetes/plugin/pkg/admission/gc/gc_admission.go, 1.36.
"""

from collections.abc import Callable, Iterable

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import Resource, ResourceTable
from kubeskew.apiserver.admission import CREATE, UPDATE, Attributes, Plugin
from kubeskew.apiserver.authorization import Authorizer
from kubeskew.apiserver.http.request import RequestInfo

_MAY_NOT_BLOCK = (
    "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on"
)
_UNMAPPED = "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for"


class OwnerReferencesPermissionEnforcement(Plugin):
    """`table` is called at each check, since the served resources change."""

    operations = frozenset({CREATE, UPDATE})
    subresources = None

    def __init__(self, authorizer: Authorizer, table: Callable[[], ResourceTable]) -> None:
        self._authorizer = authorizer
        self._table = table

    async def validate(self, attributes: Attributes) -> None:
        resource = attributes.resource
        if resource.storage_resource == "pods" and attributes.subresource == "status":
            return
        new, old = _owners(attributes.object), _owners(attributes.old)
        if new == old:
            return
        if attributes.operation != CREATE:
            question = _question(
                "delete", resource, attributes.namespace, attributes.name, attributes.subresource
            )
            self._demand(attributes, question, "cannot set an ownerRef on a resource you can't delete")
        for owner in _newly_blocking(new, old):
            self._check_owner(attributes, owner)

    def _check_owner(self, attributes: Attributes, owner: Object) -> None:
        group, _, version = (owner.get("apiVersion") or "").rpartition("/")
        resource = self._table().by_kind(group, version, owner.get("kind") or "")
        if resource is None:
            kind = f"APIVersion {owner.get('apiVersion')} Kind {owner.get('kind')}"
            missing = f'no matches for kind "{owner.get("kind")}" in version "{owner.get("apiVersion")}"'
            raise attributes.refuse(f"{_UNMAPPED} {kind}: {missing}")
        namespace = attributes.namespace if resource.namespaced else ""
        question = _question("update", resource, namespace, owner.get("name") or "", "finalizers")
        self._demand(attributes, question, _MAY_NOT_BLOCK)

    def _demand(self, attributes: Attributes, question: RequestInfo, why: str) -> None:
        decision = self._authorizer.authorize(attributes.user, question)
        if not decision.allowed:
            raise attributes.refuse(f"{why}: {decision.reason}, <nil>")


def _question(verb: str, resource: Resource, namespace: str, name: str, subresource: str) -> RequestInfo:
    return RequestInfo(
        True, "", verb, resource.group, resource.version, resource.plural, subresource, namespace, name
    )


def _owners(obj: Object | None) -> list[Object]:
    found: list[Object] = ((obj or {}).get("metadata") or {}).get("ownerReferences") or []
    return found


def _newly_blocking(new: Iterable[Object], old: Iterable[Object]) -> list[Object]:
    before = {owner.get("uid") for owner in old if owner.get("blockOwnerDeletion")}
    return [owner for owner in new if owner.get("blockOwnerDeletion") and owner.get("uid") not in before]
