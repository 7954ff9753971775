"""Requires the writer of a policy or a binding to have the right to read the parameters that it refers to.

Source: k8s.io/kubernetes/pkg/registry/admissionregistration/*/authz.go, 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery.field import FieldError, forbidden
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.http.request_info import RequestInfo
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.user import User

_GROUP = "admissionregistration.k8s.io"


def param_kind_errors(obj: Object, ctx: StrategyContext) -> Iterator[FieldError]:
    """Checks a policy: its user may get every object of the paramKind."""
    kind = (obj.get("spec") or {}).get("paramKind")
    if kind is None or _is_allowed(ctx, kind, "get", "*", "*"):
        return
    named = f"kind={kind.get('kind')}, apiVersion={kind.get('apiVersion')}"
    text = f'must have "get" permission on all objects of the referenced paramKind ({named})'
    yield forbidden("spec.paramKind", f"user {_shown(ctx.user)} {text}")


def param_ref_errors(obj: Object, policies: str, ctx: StrategyContext) -> Iterator[FieldError]:
    """Checks a binding: its user may get, or list, what the paramRef points to. `policies` is
    their plural.
    """
    spec = obj.get("spec") or {}
    reference = spec.get("paramRef")
    if reference is None:
        return
    policy = ctx.get_entry(f"{policies}.{_GROUP}", "", spec.get("policyName") or "") or {}
    kind, name = (policy.get("spec") or {}).get("paramKind"), reference.get("name") or ""
    verb = "get" if name else "list"
    if not _is_allowed(ctx, kind, verb, reference.get("namespace") or "", name):
        text = f'does not have "{verb}" permission on the object referenced by paramRef'
        yield forbidden("spec.paramRef", f"user {_shown(ctx.user)} {text}")


def _is_allowed(ctx: StrategyContext, kind: Object | None, verb: str, namespace: str, name: str) -> bool:
    if ctx.authorize is None:
        return True
    group = version = resource = "*"
    if kind is not None:
        group, _, version = (kind.get("apiVersion") or "").rpartition("/")
        found = ctx.catalogue.by_kind(group, version, kind.get("kind") or "")
        resource = found.plural if found is not None else "*"
    info = RequestInfo(True, "", verb, group, version, resource, namespace=namespace, name=name)
    return ctx.authorize(ctx.user, info).allowed


def _shown(user: User) -> str:
    """Returns a user as Go prints it."""
    extra = " ".join(f"{name}:[{' '.join(values)}]" for name, values in sorted(user.extra.items()))
    return f"&{{{user.name} {user.uid} [{' '.join(user.groups)}] map[{extra}]}}"
