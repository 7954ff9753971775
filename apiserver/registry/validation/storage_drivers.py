"""Rules of storage drivers, what they say of nodes, capacities, attachments and attributes of volumes.

Source: k8s.io/kubernetes/pkg/apis/storage/validation/validation.go, 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery.errors import Object
from kubeskew.apimachinery.field import (
    FieldError,
    child,
    duplicate,
    forbidden,
    index,
    invalid,
    not_supported,
    required,
    too_long,
)
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apimachinery.validation import names
from kubeskew.apimachinery.validation.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.validation import persistent_volumes, selectors
from kubeskew.apiserver.registry.validation.amounts import NOT_NEGATIVE
from kubeskew.apiserver.registry.validation.repeats import repeats

_GROUP_POLICIES = ("File", "None", "ReadWriteOnceWithFSType")
_MODES = ("Persistent", "Ephemeral")
_MAX_NAME = 63
_LEAST_TOKEN_SECONDS, _MOST_TOKEN_SECONDS = 600, 1 << 32
_LEAST_PERIOD = 10
_MAX_NODE_ID = 256
_MAX_PARAMETERS, _MAX_PARAMETER_BYTES = 512, 256 * 1024
_MAX_ERROR_BYTES = 1024
_EITHER_SOURCE = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"


def driver_name_errors(name: str, path: str) -> Iterator[FieldError]:
    if not name:
        yield required(path)
    if len(name.encode()) > _MAX_NAME:
        yield too_long(path, _MAX_NAME)
    yield from (invalid(path, name, text) for text in names.dns1123_subdomain(name.lower()))


def driver_errors(spec: Object) -> Iterator[FieldError]:
    """The spec of a CSIDriver."""
    policy = spec.get("fsGroupPolicy")
    if policy is not None and policy not in _GROUP_POLICIES:
        yield not_supported("spec.fsGroupPolicy", policy, _GROUP_POLICIES)
    yield from _token_errors(spec.get("tokenRequests") or [], "spec.tokenRequests")
    for mode in spec.get("volumeLifecycleModes") or []:
        if mode not in _MODES:
            yield not_supported("spec.volumeLifecycleModes", mode, _MODES)
    period = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period is not None and period < _LEAST_PERIOD:
        text = "must be greater than or equal to 10 seconds"
        yield invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, text)


def _token_errors(requests: list[Object], path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for position, request in enumerate(requests):
        at, audience = index(path, position), request.get("audience") or ""
        if audience in seen:
            yield duplicate(child(at, "audience"), audience)
            continue
        seen.add(audience)
        seconds, at = request.get("expirationSeconds"), child(at, "expirationSeconds")
        if seconds is not None and seconds < _LEAST_TOKEN_SECONDS:
            yield invalid(at, seconds, "may not specify a duration less than 10 minutes")
        if seconds is not None and seconds > _MOST_TOKEN_SECONDS:
            yield invalid(at, seconds, "may not specify a duration larger than 2^32 seconds")


def driver_update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    after, before = (one.get("spec") or {} for one in (new, old))
    if after.get("attachRequired") != before.get("attachRequired"):
        yield invalid("spec.attachedRequired", after.get("attachRequired"), IMMUTABLE)
    if (after.get("volumeLifecycleModes") or []) != (before.get("volumeLifecycleModes") or []):
        yield invalid("spec.volumeLifecycleModes", after.get("volumeLifecycleModes"), IMMUTABLE)


def node_errors(spec: Object) -> Iterator[FieldError]:
    """The spec of a CSINode."""
    seen: set[str] = set()
    for position, driver in enumerate(spec.get("drivers") or []):
        at, name = index("spec.drivers", position), driver.get("name") or ""
        yield from driver_name_errors(name, child(at, "name"))
        node_id = driver.get("nodeID") or ""
        if not node_id:
            yield required(child(at, "nodeID"))
        if len(node_id.encode()) > _MAX_NODE_ID:
            yield invalid(child(at, "nodeID"), node_id, f"must be {_MAX_NODE_ID} characters or less")
        count = (driver.get("allocatable") or {}).get("count")
        if count is not None and count < 0:
            yield invalid(child(child(at, "allocatable"), "count"), count, NOT_NEGATIVE)
        if name in seen:
            yield duplicate(child(at, "name"), name)
        seen.add(name)
        yield from _key_errors(driver.get("topologyKeys") or [], at)


def _key_errors(keys: list[str], path: str) -> Iterator[FieldError]:
    repeated = repeats(keys)
    for position, key in enumerate(keys):
        if not key:
            yield required(path)
        if position in repeated:
            yield duplicate(path, key)
        yield from (invalid(path, key, text) for text in names.qualified_name(key))


def node_update_errors(new: Object, old: Object, *, counts_change: bool) -> Iterator[FieldError]:
    """What a driver said of itself stays; `counts_change` (MutableCSINodeAllocatableCount): but the count."""
    left_out = {"allocatable"} if counts_change else set()
    for before in (old.get("spec") or {}).get("drivers") or []:
        for after in (new.get("spec") or {}).get("drivers") or []:
            names_of = {*before, *after} - left_out
            same_driver = before.get("name") == after.get("name")
            if same_driver and any(before.get(name) != after.get(name) for name in names_of):
                yield invalid("spec.drivers", _shown_driver(after, left_out), IMMUTABLE)


def _shown_driver(driver: Object, left_out: set[str]) -> Object:
    allocatable = None if "allocatable" in left_out else driver.get("allocatable")
    return {
        "Name": driver.get("name") or "",
        "NodeID": driver.get("nodeID") or "",
        "TopologyKeys": driver.get("topologyKeys"),
        "Allocatable": None if allocatable is None else {"Count": allocatable.get("count")},
    }


def capacity_errors(obj: Object, *, lenient: bool = False) -> Iterator[FieldError]:
    """A CSIStorageCapacity; `lenient`: values of its topology may be no label values."""
    faults = selectors.selector_errors(obj.get("nodeTopology") or {}, "nodeTopology")
    yield from (fault for fault in faults if not (lenient and ".values[" in fault.path))
    name = obj.get("storageClassName") or ""
    yield from (invalid("storageClassName", name, text) for text in names.dns1123_subdomain(name))
    amount = obj.get("capacity")
    if amount is not None and Quantity.parse(amount).sign() < 0:
        yield invalid("capacity", amount, NOT_NEGATIVE)


def capacity_update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    for name in ("nodeTopology", "storageClassName"):
        if new.get(name) != old.get(name):
            yield invalid(name, new.get(name), IMMUTABLE)


def attributes_errors(obj: Object) -> Iterator[FieldError]:
    """A VolumeAttributesClass."""
    driver, parameters = obj.get("driverName") or "", obj.get("parameters") or {}
    if not driver:
        yield required("driverName")
    else:
        yield from (
            invalid("driverName", driver.lower(), text) for text in names.qualified_name(driver.lower())
        )
    if len(parameters) > _MAX_PARAMETERS:
        yield too_long("parameters", _MAX_PARAMETERS)
        return
    if "" in parameters:
        yield invalid("parameters", "", "field can not be empty.")
    if (
        sum(len(name.encode()) + len(value.encode()) for name, value in parameters.items())
        > _MAX_PARAMETER_BYTES
    ):
        yield too_long("parameters", _MAX_PARAMETER_BYTES)
    if not parameters:
        yield required("parameters", "must contain at least one key/value pair")


def attributes_update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    for name in ("driverName", "parameters"):
        if (new.get(name) or None) != (old.get(name) or None):
            yield forbidden(name, f"updates to {name} are forbidden.")


def attachment_errors(obj: Object) -> Iterator[FieldError]:
    """A VolumeAttachment."""
    spec = obj.get("spec") or {}
    if not spec.get("attacher"):
        yield required("spec.attacher")
    source, at = spec.get("source") or {}, "spec.source"
    inline, volume = source.get("inlineVolumeSpec"), source.get("persistentVolumeName")
    if inline is None and volume is None:
        yield required(at, _EITHER_SOURCE)
    elif inline is not None and volume is not None:
        yield forbidden(at, _EITHER_SOURCE)
    elif volume == "":
        text = "must specify non empty persistentVolumeName"
        yield required(child(at, "persistentVolumeName"), text)
    elif inline is not None:
        yield from persistent_volumes.inline_errors(inline, child(at, "inlineVolumeSpec"))
    node = spec.get("nodeName") or ""
    yield from (invalid("spec.nodeName", node, text) for text in names.dns1123_subdomain(node))
    yield from _attachment_status(obj.get("status") or {})


def _attachment_status(status: Object) -> Iterator[FieldError]:
    metadata = status.get("attachmentMetadata") or {}
    if (
        sum(len(name.encode()) + len(value.encode()) for name, value in metadata.items())
        > _MAX_PARAMETER_BYTES
    ):
        yield too_long("status.attachmentMetadata", _MAX_PARAMETER_BYTES)
    for name in ("attachError", "detachError"):
        error, at = status.get(name) or {}, child("status", name)
        if len((error.get("message") or "").encode()) > _MAX_ERROR_BYTES:
            yield too_long(child(at, "message"), _MAX_PARAMETER_BYTES)  # upstream names the wrong limit
        code = error.get("errorCode")
        if code is not None and code < 0:
            yield invalid(child(at, "errorCode"), code, names.range_text(0, (1 << 31) - 1))


def new_attachment_errors(obj: Object) -> Iterator[FieldError]:
    """What v1 asks of new attachments beside."""
    spec = obj.get("spec") or {}
    yield from driver_name_errors(spec.get("attacher") or "", "spec.attacher")
    name = (spec.get("source") or {}).get("persistentVolumeName")
    if name is not None:
        at = "spec.source.persistentVolumeName"
        yield from (invalid(at, name, text) for text in names.dns1123_subdomain(name))


def attachment_update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    spec = new.get("spec") or {}
    if spec == (old.get("spec") or {}):
        return
    source = spec.get("source") or {}
    shown = {
        "Attacher": spec.get("attacher") or "",
        "Source": {
            "PersistentVolumeName": source.get("persistentVolumeName"),
            "InlineVolumeSpec": source.get("inlineVolumeSpec"),
        },
        "NodeName": spec.get("nodeName") or "",
    }
    yield invalid("spec", shown, IMMUTABLE)
