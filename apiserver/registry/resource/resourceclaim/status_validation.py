"""ResourceClaim: the rules of the status, and of the rights that its writer needs from 1.36 on.

The status of devices which the same update gives back may go without the driver's right: the strategy asks
for it only where the claim is still allocated.

Sources: pkg/apis/resource/validation/validation.go (validateNetworkDeviceData among others) and
k8s.io/apimachinery pkg/util/validation/ip.go (IsValidInterfaceAddress), 1.31 to 1.37; for UIDs validateUID,
1.34, and the UUID library there; k8s.io/kubernetes/pkg/registry/resource (AuthorizedForBinding,
AuthorizedForDeviceStatus) and its resourceclaim/strategy.go, 1.36.
"""

import re
from collections.abc import Iterator
from typing import Any

from kubeskew.apimachinery import field
from kubeskew.apimachinery.field import (
    FieldError,
    Unquoted,
    child,
    forbidden,
    invalid,
    not_supported,
    required,
    show,
    too_many,
)
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.authorization import refusal
from kubeskew.apiserver.dra_features import DRAFeatures
from kubeskew.apiserver.http.request import RequestInfo
from kubeskew.apiserver.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.resource import devices
from kubeskew.apiserver.registry.resource.devices import binding_condition_errors, skipped_operation_errors
from kubeskew.apiserver.registry.resource.resourceclaim.validation import (
    admin_access_text,
    references,
    request_names,
)
from kubeskew.apiserver.registry.shared import addresses, selectors
from kubeskew.apiserver.registry.shared.conditions import condition_errors
from kubeskew.apiserver.serviceaccount import USER_PREFIX

_PLAIN = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_PREFIX = "urn:uuid:"
_SIZE = 36
_TEXT = (
    "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase "
    "hexadecimal characters"
)
MAX_IPS = 16
MAX_INTERFACE_NAME = 256
MAX_HARDWARE_ADDRESS = 128
_ADDRESS_TEXT = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
MAX_RESULTS = 32
MAX_CONDITIONS = 8
MAX_ALLOCATION_CONFIGS = 64
_NO_NEW_USERS = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
_NODE_NAME = "authentication.kubernetes.io/node-name"


def unique_id_errors(value: str, path: str) -> Iterator[FieldError]:
    wrong = _wrong(value)
    if wrong:
        yield invalid(path, value, f"error validating uid: {wrong}")
    elif len(value) != _SIZE or value != value.lower():
        yield invalid(path, value, _TEXT)


def _wrong(value: str) -> str:
    """The UUID library words the error of a text that is in none of its forms."""
    size = len(value.encode())
    if size == _SIZE + len(_PREFIX):
        if value[: len(_PREFIX)].lower() != _PREFIX:
            return f'invalid urn prefix: "{value[: len(_PREFIX)]}"'
        value = value[len(_PREFIX) :]
    elif size == _SIZE + 2:
        if (value[0], value[-1]) != ("{", "}"):
            return "invalid bracketed UUID format"
        value = value[1:-1]
    elif size == _SIZE - 4:
        return "" if re.fullmatch("[0-9A-Fa-f]{32}", value) else "invalid UUID format"
    elif size != _SIZE:
        return f"invalid UUID length: {size}"
    return "" if _PLAIN.fullmatch(value) else "invalid UUID format"


def network_data_errors(data: Object, path: str, rules: DRAFeatures) -> Iterator[FieldError]:
    for name, most in (("interfaceName", MAX_INTERFACE_NAME), ("hardwareAddress", MAX_HARDWARE_ADDRESS)):
        if len((data.get(name) or "").encode()) > most:
            yield devices.over_length(child(path, name), most, rules)
    canonical = rules.canonical_addresses
    rule, identity = (_interface_address, str) if canonical else (_network, _same)
    yield from devices.unique(data.get("ips"), MAX_IPS, rule, child(path, "ips"), rules, identity, "")


def _same(text: str) -> str:
    """An address that can be written in several ways has one text (1.32)."""
    return addresses.interface(text) or ""


def _network(text: str, path: str) -> Iterator[FieldError]:
    if addresses.interface(text) is None:
        yield invalid(path, text, addresses.CIDR_TEXT)


def _interface_address(text: str, path: str) -> Iterator[FieldError]:
    canonical = addresses.interface(text)
    if canonical is None:
        yield invalid(path, text, _ADDRESS_TEXT)
    elif canonical != text:
        yield invalid(path, text, f'must be in canonical form ("{canonical}")')


def device_id(device: Object) -> str:
    """Devices are identified by `driver/pool/device[/shareID]`."""
    parts = [device.get(name) or "" for name in ("driver", "pool", "device")]
    return "/".join([*parts, device["shareID"]] if device.get("shareID") else parts)


def _shown_id(device: Object, rules: DRAFeatures) -> Unquoted:
    if rules.device_ids == "text":
        return Unquoted(device_id(device))
    names = {"Driver": "driver", "Pool": "pool", "Device": "device", "ShareID": "shareID"}
    hidden = rules.device_ids == "hidden"
    return Unquoted(show({shown: {} if hidden else device.get(name) or "" for shown, name in names.items()}))


def claim_status_errors(new: Object, old: Object, rules: DRAFeatures) -> list[FieldError]:
    """Specs are in the shape of v1."""
    status, before = new.get("status") or {}, old.get("status") or {}
    allocation = status.get("allocation")
    users, most = status.get("reservedFor"), rules.max_reserved
    errors = list(
        devices.unique(
            users, most, _user, "status.reservedFor", rules, lambda one: one.get("uid") or "", "uid"
        )
    )
    errors += _devices(status, {device_id(result) for result in results(allocation)}, rules)
    errors += _reservations(new, status, before)
    if before.get("allocation") is not None and allocation is not None:
        if allocation != before["allocation"]:
            shown = rules.structs.shown(allocation, "*resource.AllocationResult")
            errors.append(invalid("status.allocation", shown, IMMUTABLE))
    elif allocation is not None:
        errors += _allocation(allocation, new.get("spec") or {}, rules)
    return errors


def results(allocation: Object | None) -> list[Object]:
    return ((allocation or {}).get("devices") or {}).get("results") or []


def _user(user: Object, path: str) -> Iterator[FieldError]:
    for name in ("resource", "name", "uid"):
        if not user.get(name):
            yield required(child(path, name))


def _reservations(claim: Object, status: Object, before: Object) -> Iterator[FieldError]:
    reserved = status.get("reservedFor") or []
    if not reserved:
        return
    if status.get("allocation") is None:
        yield forbidden("status.reservedFor", "may not be specified when `allocated` is not set")
    elif claim["metadata"].get("deletionTimestamp") or status.get("deallocationRequested"):
        known = before.get("reservedFor") or []
        if any(user not in known for user in reserved):
            yield forbidden("status.reservedFor", _NO_NEW_USERS)


def _devices(status: Object, allocated: set[str], rules: DRAFeatures) -> Iterator[FieldError]:
    def rule(device: Object, at: str) -> Iterator[FieldError]:
        yield from _device(device, at, rules)
        yield from _reported(device, at, allocated, rules)

    yield from devices.unique(
        status.get("devices"),
        None,
        rule,
        "status.devices",
        rules,
        device_id,
        "deviceID",
        lambda device: _shown_id(device, rules),
    )


def _device(device: Object, path: str, rules: DRAFeatures) -> Iterator[FieldError]:
    yield from devices.driver(device.get("driver") or "", child(path, "driver"), rules)
    yield from devices.pool(device.get("pool") or "", child(path, "pool"))
    yield from devices.label(device.get("device") or "", child(path, "device"))


def _reported(device: Object, path: str, allocated: set[str], rules: DRAFeatures) -> Iterator[FieldError]:
    if device.get("shareID") is not None:
        yield from unique_id_errors(device["shareID"], child(path, "shareID"))
    name = device_id(device)
    if name not in allocated:
        yield invalid(path, _shown_id(device, rules), "must be an allocated device in the claim")
    conditions, at = device.get("conditions") or [], child(path, "conditions")
    if len(conditions) > MAX_CONDITIONS:
        yield too_many(at, len(conditions), MAX_CONDITIONS)
    yield from condition_errors(conditions, at, texts=rules.condition_texts)
    if device.get("data") is not None:
        yield from devices.raw_object(device["data"], child(path, "data"), rules, stored=False)
    if device.get("networkData") is not None:
        yield from network_data_errors(device["networkData"], child(path, "networkData"), rules)


def _allocation(allocation: Object, spec: Object, rules: DRAFeatures) -> Iterator[FieldError]:
    path = "status.allocation"
    names = request_names((spec.get("devices") or {}).get("requests") or [])

    def result(item: Object, at: str) -> Iterator[FieldError]:
        yield from devices.request_reference(names)(item.get("request") or "", child(at, "request"))
        yield from _device(item, at, rules)
        yield from binding_condition_errors(item, at, rules)
        if item.get("shareID") is not None:
            yield from unique_id_errors(item["shareID"], child(at, "shareID"))
        yield from skipped_operation_errors(item.get("skipNodeOperations"), child(at, "skipNodeOperations"))

    def config(item: Object, at: str) -> Iterator[FieldError]:
        source = item.get("source") or ""
        if not source:
            yield required(child(at, "source"))
        elif source not in {"FromClaim", "FromClass"}:
            yield not_supported(child(at, "source"), source, ("FromClaim", "FromClass"))
        yield from references(item, at, names, rules)
        yield from devices.opaque(item, at, rules, stored=False)

    inner, at = allocation.get("devices") or {}, child(path, "devices")
    yield from devices.each(inner.get("results"), MAX_RESULTS, result, child(at, "results"), rules)
    yield from devices.each(inner.get("config"), MAX_ALLOCATION_CONFIGS, config, child(at, "config"), rules)
    if allocation.get("nodeSelector") is not None:
        nodes, at = allocation["nodeSelector"], child(path, "nodeSelector")
        yield from selectors.node_selector_errors(nodes, at, any_value=rules.any_label_values)


def drop_deallocated(new: Object, old: Object) -> None:
    status = new.get("status") or {}
    if status.get("devices"):
        status["devices"] = kept_devices(status, status, old.get("status") or {})
        if not status["devices"]:
            del status["devices"]


def kept_devices(status: Object, after: Object, before: Object) -> list[Object]:
    """Devices whose allocation is in the status `before` and not in `after` are left out."""
    gone = {device_id(result) for result in results(before.get("allocation"))}
    gone -= {device_id(result) for result in results(after.get("allocation"))}
    return [device for device in status.get("devices") or () if device_id(device) not in gone]


def admin_results_errors(new: Object, old: Object, label: str) -> list[FieldError]:
    """The first result with administrative access is an error, unless the old status had one already."""
    old_results = results((old.get("status") or {}).get("allocation"))
    if any(result.get("adminAccess") for result in old_results):
        return []
    for position, result in enumerate(results((new.get("status") or {}).get("allocation"))):
        if result.get("adminAccess"):
            at = f"status.allocation.devices.results[{position}].adminAccess"
            return [forbidden(at, admin_access_text(label))]
    return []


def claim_access_errors(new: Object, old: Object, ctx: StrategyContext) -> Iterator[FieldError]:
    """Each change that the writer has no right to is an error; both objects are v1."""
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
    """An empty reason means that the writer may do this."""
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
    """An empty text means that the allocation is for several nodes."""
    terms = (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms") or []
    if len(terms) != 1 or terms[0].get("matchExpressions"):
        return ""
    fields = terms[0].get("matchFields") or []
    if len(fields) != 1 or (fields[0].get("key"), fields[0].get("operator")) != ("metadata.name", "In"):
        return ""
    values = fields[0].get("values") or []
    return str(values[0]) if len(values) == 1 else ""


def _is_on(ctx: StrategyContext, node: str) -> bool:
    """The writer is a service account whose token is bound to the node."""
    user = ctx.user
    return bool(node) and user.name.startswith(USER_PREFIX) and user.extra.get(_NODE_NAME) == (node,)
