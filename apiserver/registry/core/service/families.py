"""Infers the address families of services, and refuses those that a cluster of one family lacks.

Source: pkg/registry/core/service/storage/alloc.go (initIPFamilyFields), 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery.field import FieldError, index, invalid
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.core.service.addresses import cluster_ip_errors
from kubeskew.apiserver.registry.shared.addresses import is_v6
from kubeskew.apiserver.service_features import ServiceFeatures

_SINGLE = "SingleStack"
_PREFER = "PreferDualStack"
_REQUIRE = "RequireDualStack"
_POLICY = "spec.ipFamilyPolicy"
_OTHER = {"IPv4": "IPv6", "IPv6": "IPv4"}
_KINDS = {"clusterIPs": "cluster IP", "ipFamilies": "IP family"}
_SEVERAL = {"clusterIPs": "cluster IPs", "ipFamilies": "IP families"}


def complete(spec: Object, before: Object, family: str, options: ServiceFeatures) -> list[FieldError]:
    """Sets policy and families; `before` is the old spec (empty at a create), `family` the cluster's."""
    if spec.get("type") == "ExternalName" or _is_same_preference(spec, before):
        return []
    unselected = spec.get("clusterIP") == "None" and not spec.get("selector")
    if spec.get("ipFamilyPolicy") is None:
        default = _REQUIRE if unselected else _SINGLE
        spec["ipFamilyPolicy"] = before.get("ipFamilyPolicy") or default
    if errors := list(cluster_ip_errors(spec, before, options)):
        return errors
    policy = spec["ipFamilyPolicy"]
    errors = [*_released(spec, before, policy), *_too_many(spec, policy), *_inferred(spec, family)]
    if errors:
        return errors
    families: list[str] = spec.get("ipFamilies") or []
    if unselected:
        families = families or [family]
        if len(families) == 1 and policy != _SINGLE:
            families = [*families, _OTHER[families[0]]]
        spec["ipFamilies"] = families
        return []
    spec["ipFamilies"] = families or [family]
    return list(_refused(families, policy, family))


def _is_same_preference(spec: Object, before: Object) -> bool:
    """Decides whether both only prefer two families and agree: then nothing follows a change of
    the cluster.
    """
    names = ("type", "ipFamilyPolicy", "clusterIPs", "ipFamilies")
    if spec.get("ipFamilyPolicy") != _PREFER:
        return False
    return all(spec.get(name) == before.get(name) for name in names)


def _released(spec: Object, before: Object, policy: str) -> Iterator[FieldError]:
    for name, what in _KINDS.items():
        now, old = spec.get(name) or [], before.get(name) or []
        if policy == _SINGLE and now == old:
            if len(now) > 1:
                spec[name] = now[:1]
        elif policy != _SINGLE and now and len(now) < len(old):
            yield invalid(_POLICY, policy, f"must be 'SingleStack' to release the secondary {what}")


def _too_many(spec: Object, policy: str) -> Iterator[FieldError]:
    for name, what in _SEVERAL.items():
        if policy == _SINGLE and len(spec.get(name) or []) == 2:
            text = f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
            yield invalid(_POLICY, policy, text)


def _inferred(spec: Object, family: str) -> Iterator[FieldError]:
    """Infers families that are not given from addresses."""
    addresses, families = spec.get("clusterIPs") or [], list(spec.get("ipFamilies") or [])
    for position, address in enumerate(addresses):
        if address == "None":
            break
        its = "IPv6" if is_v6(address) else "IPv4"
        if position < len(families):
            continue
        if its != family:
            at = index("spec.clusterIPs", position)
            yield invalid(at, addresses, f"{its} is not configured on this cluster")
        else:
            families.append(its)
    if families:
        spec["ipFamilies"] = families


def _refused(families: list[str], policy: str, family: str) -> Iterator[FieldError]:
    if policy == _REQUIRE:
        yield invalid(_POLICY, policy, "this cluster is not configured for dual-stack services")
    for position, listed in enumerate(families):
        if listed != family:
            yield invalid(index("spec.ipFamilies", position), listed, "not configured on this cluster")
