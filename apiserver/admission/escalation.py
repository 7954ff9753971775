"""Refuses to let users grant rights that they do not hold, without `escalate` on roles or `bind` on that one.

Source: k8s.io/kubernetes/pkg/registry/rbac/{role,clusterrole,rolebinding,clusterrolebinding}/policybased and
pkg/registry/rbac/validation/rule.go, 1.36. Upstream does this in the registry, between mutating admission
and validation; here it is the last of the mutating plugins.
"""

from collections.abc import Sequence
from typing import ClassVar

from kubeskew.apimachinery.errors import GroupResource, StatusError, forbidden, not_found
from kubeskew.apimachinery.field import listed
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.admission import CREATE, UPDATE, Attributes, Plugin
from kubeskew.apiserver.authorization.access import Access
from kubeskew.apiserver.authorization.rbac import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    GROUP,
    ROLE_BINDINGS,
    ROLES,
    Rule,
    compact,
    printed,
    rules_of,
    uncovered,
)
from kubeskew.apiserver.features import AccountFeatures
from kubeskew.apiserver.http.request import RequestInfo
from kubeskew.apiserver.user import MASTERS_GROUP

_EVERYTHING = (Rule(("*",), ("*",), ("*",), (), ()), Rule(("*",), (), (), (), ("*",)))
_ABOUT_DELETING = ("finalizers", "ownerReferences", "managedFields", "resourceVersion")


class Escalation(Plugin):
    """Members of system:masters may write any role and binding."""

    name = ""  # upstream's storage does this
    operations = frozenset({CREATE, UPDATE})
    resources: ClassVar[frozenset[str]] = frozenset(
        {ROLES, CLUSTER_ROLES, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS}
    )

    def __init__(self, access: Access, features: AccountFeatures) -> None:
        self._access = access
        self._names_request = features.missing_roles_as_request

    async def admit(self, attributes: Attributes) -> None:
        if MASTERS_GROUP in attributes.user.groups:
            return
        new, old = attributes.object or {}, attributes.old
        if attributes.resource.storage_resource in {ROLES, CLUSTER_ROLES}:
            if not self._may_escalate(attributes) and not _only_lets_go(new, old):
                self._check_role(attributes, new, old or {})
        elif not _only_lets_go(new, old) and not self._may_bind(attributes, new):
            self._confirm(attributes, self._rules_of_reference(attributes, new))

    def _check_role(self, attributes: Attributes, new: Object, old: Object) -> None:
        self._confirm(attributes, rules_of(new))
        if not (_aggregates(new) or _aggregates(old)):
            return
        held, _ = self._access.rbac.held(attributes.user, attributes.namespace)
        if uncovered(held, _EVERYTHING):
            raise _refused(attributes, "must have cluster-admin privileges to use the aggregationRule")

    def _confirm(self, attributes: Attributes, wanted: Sequence[Rule]) -> None:
        """Raises 403 if the user has fewer rights than `wanted`."""
        user = attributes.user
        held, gone = self._access.rbac.held(user, attributes.namespace)
        errors = listed(self._no_role(attributes, *role).message for role in gone)
        missing = uncovered(held, wanted)
        if not missing:
            return
        groups = " ".join(f'"{group}"' for group in user.groups)
        rules = "\n".join(sorted({printed(rule) for rule in compact(missing)}))
        why = f'user "{user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions'
        raise _refused(
            attributes,
            f"{why} not currently held:\n{rules}" + (f"; resolution errors: [{errors}]" if errors else ""),
        )

    def _may_escalate(self, attributes: Attributes) -> bool:
        resource = attributes.resource
        name = attributes.name if attributes.operation == UPDATE else ""
        return self._may(attributes, "escalate", resource.plural, name)

    def _may_bind(self, attributes: Attributes, binding: Object) -> bool:
        reference = binding.get("roleRef") or {}
        plural = {"ClusterRole": "clusterroles", "Role": "roles"}.get(reference.get("kind") or "")
        return plural is not None and self._may(attributes, "bind", plural, reference.get("name") or "")

    def _may(self, attributes: Attributes, verb: str, plural: str, name: str) -> bool:
        info = RequestInfo(True, "", verb, GROUP, "*", plural, namespace=attributes.namespace, name=name)
        return self._access.authorize(attributes.user, info).allowed

    def _rules_of_reference(self, attributes: Attributes, binding: Object) -> Sequence[Rule]:
        reference = binding.get("roleRef") or {}
        kind, name = reference.get("kind") or "", reference.get("name") or ""
        rules = self._access.rbac.bindings.rules_of_role(kind, name, attributes.namespace)
        if rules is not None:
            return rules
        raise self._no_role(attributes, kind, name)

    def _no_role(self, attributes: Attributes, kind: str, name: str) -> StatusError:
        if kind not in {"Role", "ClusterRole"}:
            return StatusError(500, "", f'unsupported role reference kind: "{kind}"')
        own = GroupResource(GROUP, f"{kind.lower()}s")
        return not_found(attributes.resource.group_resource if self._names_request else own, name)


def _refused(attributes: Attributes, why: str) -> StatusError:
    name = ((attributes.object or {}).get("metadata") or {}).get("name") or ""
    return forbidden(attributes.resource.group_resource, name, why)


def _only_lets_go(new: Object, old: Object | None) -> bool:
    """The garbage collector may change finalizers and owners: else it could not delete the object."""
    if old is None:
        return False
    return _without(new) == _without(old)


def _without(obj: Object) -> Object:
    metadata = {name: value for name, value in obj["metadata"].items() if name not in _ABOUT_DELETING}
    return {**obj, "metadata": metadata}


def _aggregates(role: Object) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))
