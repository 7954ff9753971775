"""Holds the rules of the addresses and address families of services, and of how they may change.

Source: pkg/apis/core/validation/validation.go (ValidateServiceClusterIPsRelatedFields,
validateUpgradeDowngradeClusterIPs, validateUpgradeDowngradeIPFamilies), 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery.field import FieldError, duplicate, index, invalid, not_supported, required
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.shared import addresses
from kubeskew.apiserver.registry.shared.repeats import repeats
from kubeskew.apiserver.service_features import ServiceFeatures

_FAMILIES = ("IPv4", "IPv6")
_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_IPS = "spec.clusterIPs"
_FAMILY_PATH = "spec.ipFamilies"
_POLICY = "spec.ipFamilyPolicy"
_ONCE = "may not change once set"


def cluster_ip_errors(spec: Object, before: Object, options: ServiceFeatures) -> Iterator[FieldError]:
    if spec.get("type") == "ExternalName":
        return
    single, several = spec.get("clusterIP") or "", spec.get("clusterIPs") or []
    if single and not several:
        yield required(_IPS)
    elif single and several[0] != single:
        yield invalid(_IPS, several, "first value must match `clusterIP`")
    elif several and not single:
        yield invalid(_IPS, several, "must be empty when `clusterIP` is not specified")
    families, policy = spec.get("ipFamilies") or [], spec.get("ipFamilyPolicy")
    repeated = repeats(families)
    for position, family in enumerate(families):
        if family not in _FAMILIES:
            yield not_supported(index(_FAMILY_PATH, position), family, _FAMILIES)
        if position in repeated:
            yield duplicate(index(_FAMILY_PATH, position), family)
    if policy is not None and policy not in _POLICIES:
        yield not_supported(_POLICY, policy, _POLICIES)
    wrong = list(_ip_errors(several, before.get("clusterIPs") or [], options))
    yield from wrong
    if len(several) > 2:
        yield invalid(_IPS, several, "may only hold up to 2 values")
    if not wrong:
        yield from _family_errors(several, families)


def _ip_errors(several: list[str], known: list[str], options: ServiceFeatures) -> Iterator[FieldError]:
    for position, address in enumerate(several):
        if position == 0 and address == "None":
            if len(several) > 1:
                yield invalid(_IPS, several, "'None' must be the first and only value")
            continue
        at = index(_IPS, position)
        yield from addresses.ip_errors(at, address, strict=options.strict_addresses, known=known)


def _family_errors(several: list[str], families: list[str]) -> Iterator[FieldError]:
    if len(several) > 1 and not addresses.is_dual_stack(several):
        yield invalid(_IPS, several, "may specify no more than one IP for each IP family")
    if several == ["None"]:
        return
    for position, (address, family) in enumerate(zip(several, families, strict=False)):
        if family in _FAMILIES and addresses.is_v6(address) != (family == "IPv6"):
            text = f"expected an {family} value as indicated by `ipFamilies[{position}]`"
            yield invalid(index(_IPS, position), address, text)


def change_errors(new: Object, old: Object) -> Iterator[FieldError]:
    """Checks that the addresses of spec `old` may become those of `new`: the first stays."""
    if "ExternalName" in {new.get("type"), old.get("type")}:
        return
    headless = [spec.get("clusterIPs") == ["None"] for spec in (new, old)]
    if not all(headless):
        yield from _ip_changes(new, old)
    if not any(headless):
        yield from _family_changes(new, old)


def _ip_changes(new: Object, old: Object) -> Iterator[FieldError]:
    after, before = new.get("clusterIPs") or [], old.get("clusterIPs") or []
    if len(after) == len(before):
        changed = [
            n for n, (address, other) in enumerate(zip(after, before, strict=True)) if address != other
        ]
        yield from (invalid(index(_IPS, position), after, _ONCE) for position in changed)
        return
    at = index(_IPS, 0)
    if before and not after:
        yield invalid(at, None, "primary clusterIP can not be unset")
    if before and after and before[0] != after[0]:
        yield invalid(at, after, _ONCE)
    if len(before) > len(after) == 1 and new.get("ipFamilyPolicy") != "SingleStack":
        text = "must be set to 'SingleStack' when releasing the secondary clusterIP"
        yield invalid(_POLICY, new.get("ipFamilyPolicy"), text)


def _family_changes(new: Object, old: Object) -> Iterator[FieldError]:
    after, before = new.get("ipFamilies") or [], old.get("ipFamilies") or []
    at = index(_FAMILY_PATH, 0)
    if len(after) == len(before):
        changed = [address for address, other in zip(after, before, strict=True) if address != other]
        yield from (invalid(at, after, _ONCE) for _ in changed)
        return
    if len(before) > len(after) and not new.get("clusterIPs"):
        yield invalid(at, after or None, "primary ipFamily can not be unset")
    if before and after and before[0] != after[0]:
        yield invalid(at, new.get("clusterIPs"), _ONCE)  # so upstream
    if len(before) > len(after) == 1 and new.get("ipFamilyPolicy") != "SingleStack":
        text = "must be set to 'SingleStack' when releasing the secondary ipFamily"
        yield invalid(_POLICY, new.get("ipFamilyPolicy"), text)
