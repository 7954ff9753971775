"""Checks the rights of the writer of a claim's status, part by part, from 1.36 on.

Source: k8s.io/kubernetes/pkg/registry/resource (AuthorizedForBinding, AuthorizedForDeviceStatus), 1.36. The
field path of the former is from memory, and so is that the status of devices which the same update gives back
may go without the driver's right: else no controller could deallocate a claim that a driver wrote to.
"""

from collections.abc import Iterator
from typing import Any

from kubeskew.apimachinery import field
from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.authorization import refusal
from kubeskew.apiserver.http.request_info import RequestInfo
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.resource.resourceclaim.status_validation import kept_devices
from kubeskew.apiserver.serviceaccount import USER_PREFIX

_NODE_NAME = "authentication.kubernetes.io/node-name"


def claim_access_errors(new: Object, old: Object, ctx: StrategyContext) -> Iterator[FieldError]:
    """Yields an error for each change that the writer has no right to; both objects are v1."""
    after, before = ((claim.get("status") or {}) for claim in (new, old))
    if any((after.get(name) or None) != (before.get(name) or None) for name in ("allocation", "reservedFor")):
        why = _refused(ctx, ctx.verb, "binding")
        if why:
            what = "changing status.allocation or status.reservedFor requires"
            right = f'resource="resourceclaims/binding", verb="{ctx.verb}" permission'
            yield field.forbidden("status", f"{what} {right}: {why}")
    verbs = [f"arbitrary-node:{ctx.verb}"]
    if _is_on(ctx, _node_of(after.get("allocation") or {})):
        verbs.insert(0, f"associated-node:{ctx.verb}")
    namespace = new["metadata"].get("namespace") or ""
    for driver in sorted(_changed_drivers(after, before | {"devices": kept_devices(before, after, before)})):
        refusals = [_refused(ctx, verb, "driver", namespace, driver) for verb in verbs]
        if all(refusals):
            right = f'resource="resourceclaims/driver", verb="[{" ".join(verbs)}]" permission'
            yield field.forbidden(
                "status.devices", f"changing status.devices requires {right}: {refusals[0]}"
            )


def _refused(ctx: StrategyContext, verb: str, subresource: str, namespace: str = "", name: str = "") -> str:
    """Returns the reason for which the writer may not do this, empty if they may."""
    info = RequestInfo(
        True, "", verb, "resource.k8s.io", "v1", "resourceclaims", subresource, namespace, name
    )
    if ctx.authorize is None:
        return ""
    decision = ctx.authorize(ctx.user, info)
    return "" if decision.allowed else str(refusal(ctx.user, info, decision.reason))


def _changed_drivers(after: Object, before: Object) -> set[str]:
    new, old = (
        {_key(device): device for device in status.get("devices") or ()} for status in (after, before)
    )
    return {key[0] for key in new.keys() | old.keys() if new.get(key) != old.get(key)}


def _key(device: dict[str, Any]) -> tuple[str, str, str, str]:
    driver, pool, name = (str(device.get(field) or "") for field in ("driver", "pool", "device"))
    return driver, pool, name, str(device.get("shareID") or "")


def _node_of(allocation: Object) -> str:
    """Returns the one node that an allocation is for, empty if it is for several."""
    terms = (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms") or []
    if len(terms) != 1 or terms[0].get("matchExpressions"):
        return ""
    fields = terms[0].get("matchFields") or []
    if len(fields) != 1 or (fields[0].get("key"), fields[0].get("operator")) != ("metadata.name", "In"):
        return ""
    values = fields[0].get("values") or []
    return str(values[0]) if len(values) == 1 else ""


def _is_on(ctx: StrategyContext, node: str) -> bool:
    """Decides whether the writer is a service account whose token is bound to the node."""
    user = ctx.user
    return bool(node) and user.name.startswith(USER_PREFIX) and user.extra.get(_NODE_NAME) == (node,)
