"""Node: defaults, validation, strategy and cells of tables.

Sources: pkg/apis/core/v1/defaults.go, pkg/apis/core/validation/validation.go (ValidateNode,
ValidateNodeUpdate), pkg/registry/core/node/strategy.go, 1.36.
"""

import re
from collections.abc import Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import (
    OMITTED,
    ErrorType,
    FieldError,
    child,
    duplicate,
    forbidden,
    index,
    invalid,
    required,
)
from kubeskew.apimachinery.go_formats import quoted
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting import DefaultingContext, struct
from kubeskew.apiserver.registry.generic.builtin import BuiltIn, SpecKeptStatus
from kubeskew.apiserver.registry.generic.strategy import UPDATE_AS_NEW, Check, StrategyContext, show
from kubeskew.apiserver.registry.shared import addresses, amounts
from kubeskew.apiserver.registry.shared.amounts import round_amounts
from kubeskew.apiserver.registry.shared.internal_values import node_address
from kubeskew.apiserver.registry.shared.podtemplate.validation import taint_errors
from kubeskew.apiserver.registry.shared.repeats import repeats
from kubeskew.apiserver.registry.tables.cells import NONE, UNKNOWN, Cells, Subject

_POSITIVE = "must be greater than zero"
_FEATURE = re.compile(r"[A-Z][a-zA-Z0-9]*(/[a-zA-Z][a-zA-Z0-9]*)*")
_FEATURE_TEXT = (
    "must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature "
    "or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
)
_ONE_SUBFIELD = "exactly one reference subfield must be non-nil"
_NODE_WARNINGS = {
    "configSource": "spec.configSource: the feature is no longer supported",
    "externalID": "spec.externalID: this field is deprecated, and is unused by Kubernetes",
}
_ROLE_PREFIX = "node-role.kubernetes.io/"

_ROLE_LABEL = "kubernetes.io/role"


def default_node(obj: Object, _: DefaultingContext) -> None:
    status = struct(obj, "status")
    round_amounts(status, "capacity", "allocatable")
    if status.get("capacity") and status.get("allocatable") is None:
        status["allocatable"] = dict(status["capacity"])
    _complete_cidrs(obj.get("spec") or {})


def _complete_cidrs(spec: Object) -> None:
    """`podCIDR` wins where it and `podCIDRs` differ, as in upstream's conversion."""
    one, many = spec.get("podCIDR"), spec.get("podCIDRs")
    if one and (not many or many[0] != one):
        spec["podCIDRs"] = [one]
    elif many:
        spec["podCIDR"] = many[0]


def node_errors(node: Object, *, strict: bool = True, unique: bool = False) -> list[FieldError]:
    """`strict`: CIDRs must be written the usual way (gate StrictIPCIDRValidation); `unique`: repeated ones
    are errors of their own."""
    spec, status = node.get("spec") or {}, node.get("status") or {}
    # Upstream gives taints the path of metadata.
    errors = list(taint_errors(spec.get("taints") or [], "metadata.taints"))
    errors += _amounts(status)
    errors += _swap_errors(status, "metadata.nodeSwapStatus.capacity")  # upstream's path, too
    errors += _feature_errors(status.get("declaredFeatures") or [], "status.declaredFeatures")
    if spec.get("podCIDRs"):
        errors += _cidr_errors(spec["podCIDRs"], "spec.podCIDRs", strict=strict, unique=unique)
    return errors


def _cidr_errors(cidrs: list[str], path: str, *, strict: bool, unique: bool) -> Iterator[FieldError]:
    for position, cidr in enumerate(cidrs):
        yield from addresses.cidr_errors(index(path, position), cidr, strict=strict)
    if len(cidrs) < 2:
        return
    networks = [*map(addresses.network, cidrs)]
    if None in networks:
        at = networks.index(None)
        why = f"invalid CIDR[{at}]: <nil> (invalid CIDR address: {cidrs[at]})"
        text = f"invalid PodCIDRs. failed to check with dual stack with error:{why}"
        yield FieldError(ErrorType.INTERNAL, path, OMITTED, text)
    versions = [found.version for found in networks if found is not None]
    if set(versions) != {4, 6} or len(cidrs) > 2:
        yield invalid(path, cidrs, "may specify no more than one CIDR for each IP family")
    if unique:
        for position in sorted(repeats(cidrs)):
            yield duplicate(index(path, position), cidrs[position])


def _swap_errors(status: Object, path: str) -> Iterator[FieldError]:
    capacity = ((status.get("nodeInfo") or {}).get("swap") or {}).get("capacity")
    if capacity is not None and capacity <= 0:
        yield invalid(path, capacity, _POSITIVE)


def _feature_errors(features: list[str], path: str) -> Iterator[FieldError]:
    """Names are in order, each once."""
    for position, feature in enumerate(features):
        if len(feature.encode()) > names.MAX_SUBDOMAIN:
            text = f"must be no more than {names.MAX_SUBDOMAIN} characters"
            yield invalid(index(path, position), feature, f"invalid feature name {quoted(feature)}: {text}")
        elif _FEATURE.fullmatch(feature) is None:
            text = f"invalid feature name {quoted(feature)}: {_FEATURE_TEXT}"
            yield invalid(index(path, position), feature, text)
        after = features[position + 1] if position + 1 < len(features) else None
        if after == feature:
            yield duplicate(index(path, position + 1), after)
        elif after is not None and feature.encode() > after.encode():
            yield invalid(index(path, position + 1), after, "list must be sorted alphabetically")


def _amounts(status: Object) -> Iterator[FieldError]:
    for field in ("capacity", "allocatable"):
        for name, text in sorted((status.get(field) or {}).items()):
            yield from amounts.amount_errors(name, text, f"status.{field}.{name}")


def node_update_errors(new: Object, old: Object) -> list[FieldError]:
    """Changes of the status are checked too: kubelets write both."""
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    status = new.get("status") or {}
    errors = list(_amounts(status))
    errors += _feature_errors(status.get("declaredFeatures") or [], "status.declaredFeatures")
    seen: list[Object] = []
    for position, address in enumerate(status.get("addresses") or ()):
        if address in seen:
            errors.append(duplicate(index("status.addresses", position), node_address(address)))
        seen.append(address)
    errors += _kept_errors(spec, before)
    if spec.get("configSource") is not None:
        errors += _config_errors(spec["configSource"], "spec.configSource", stored=False)
    for name in ("assigned", "active", "lastKnownGood"):
        source = (status.get("config") or {}).get(name)
        if source is not None:
            errors += _config_errors(source, f"status.config.{name}", stored=True)
    errors += taint_errors(spec.get("taints") or [], "metadata.taints")
    if (spec.get("externalID") or "") != (before.get("externalID") or ""):
        errors.append(forbidden("spec.externalID", "may not be updated"))
    return errors


def _kept_errors(spec: Object, before: Object) -> Iterator[FieldError]:
    cidrs, had = spec.get("podCIDRs") or [], before.get("podCIDRs") or []
    text = 'node updates may not change podCIDR except from "" to valid'
    if had and len(cidrs) != len(had):
        yield forbidden("spec.podCIDRs", text)
    elif had:
        changed = (cidr for cidr, other in zip(had, cidrs, strict=True) if cidr != other)
        yield from (forbidden("spec.podCIDRs", text) for _ in changed)
    if before.get("providerID") and spec.get("providerID") != before["providerID"]:
        text = 'node updates may not change providerID except from "" to valid'
        yield forbidden("spec.providerID", text)


def _config_errors(source: Object, path: str, *, stored: bool) -> Iterator[FieldError]:
    """A kubelet's configuration once had a source; `stored`: the status has it."""
    config, at = source.get("configMap"), child(path, "configMap")
    if config is None:
        yield invalid(path, {"ConfigMap": source.get("configMap")}, _ONE_SUBFIELD)
        return
    for name in ("uid", "resourceVersion"):
        if stored and not config.get(name):
            yield required(child(at, name), f"{name} must be set in status")
        elif not stored and config.get(name):
            yield forbidden(child(at, name), f"{name} must not be set in spec")
    for name, check in (
        ("namespace", names.dns1123_label),
        ("name", names.dns1123_subdomain),
        ("kubeletConfigKey", names.config_key),
    ):
        value = config.get(name) or ""
        if not value:
            yield required(child(at, name), f"{name} must be set")
        else:
            yield from (invalid(child(at, name), value, text) for text in check(value))


class NodeStatus(SpecKeptStatus):
    def drops_disabled(self, ctx: StrategyContext) -> bool:
        return False

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare_for_update(new, old, ctx)
        if (old.get("status") or {}).get("config") is None:
            (new.get("status") or {}).pop("config", None)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return node_update_errors(new, old)


class NodeStrategy(BuiltIn):
    status = NodeStatus
    update_checks = (Check.METADATA, *UPDATE_AS_NEW)
    field_labels = ("spec.unschedulable",)

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        obj.setdefault("spec", {}).pop("configSource", None)  # of dynamic configuration, which went in 1.26
        (obj.get("status") or {}).pop("config", None)

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare_for_update(new, old, ctx)
        new.setdefault("spec", {})
        if (old.get("spec") or {}).get("configSource") is None:
            new["spec"].pop("configSource", None)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        unique = ctx.features.services.repeated_ranges
        return node_errors(obj, strict=ctx.features.strict_addresses, unique=unique)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return node_update_errors(new, old)

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        spec = obj.get("spec") or {}
        return [text for name, text in _NODE_WARNINGS.items() if spec.get(name)]

    def fields(self, obj: Object) -> dict[str, str]:
        found = super().fields(obj)
        found["spec.unschedulable"] = show(bool((obj.get("spec") or {}).get("unschedulable")))
        return found


def node_cells(subject: Subject) -> Cells:
    info = ("status", "nodeInfo")
    kernel, architecture = (
        subject.text(*info, "kernelVersion", default=UNKNOWN),
        subject.text(*info, "architecture"),
    )
    if architecture and subject.shows_architecture:
        kernel += f" ({architecture})"
    return {
        "Status": _status(subject),
        "Roles": ",".join(_roles(subject)) or NONE,
        "Version": subject.text(*info, "kubeletVersion"),
        "Internal-IP": _address(subject, "InternalIP"),
        "External-IP": _address(subject, "ExternalIP"),
        "OS-Image": subject.text(*info, "osImage", default=UNKNOWN),
        "Kernel-Version": kernel,
        "Container-Runtime": subject.text(*info, "containerRuntimeVersion", default=UNKNOWN),
    }


def _status(subject: Subject) -> str:
    ready = "Unknown"
    if subject.condition("Ready") is not None:
        ready = "Ready" if subject.is_true("Ready") else "NotReady"
    return f"{ready},SchedulingDisabled" if subject.at("spec", "unschedulable") else ready


def _roles(subject: Subject) -> list[str]:
    labels = subject.at("metadata", "labels") or {}
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    return sorted((roles | {labels.get(_ROLE_LABEL, "")}) - {""})


def _address(subject: Subject, kind: str) -> str:
    for address in subject.items("status", "addresses"):
        if address.get("type") == kind:
            return str(address.get("address", ""))
    return NONE
