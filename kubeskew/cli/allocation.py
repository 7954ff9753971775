"""The cases of `kubeskew allocate`: their shape, their files, and the allocation of claims on nodes.

Files have manifests of devices, claims and nodes, which are read as the scheduler would see them. Objects
that an API server would refuse are reported, and allocated all the same. A line of `--jsonl` is checked for
types and required fields.
"""

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kubeskew.apimachinery.clock import SeededEntropy, SystemClock, deadline
from kubeskew.apimachinery.conversion import convert
from kubeskew.apimachinery.field import ErrorType, FieldError
from kubeskew.apimachinery.gates import FeatureGates, all_gates, known_gate
from kubeskew.apimachinery.known_bugs import check_bugs
from kubeskew.apimachinery.known_names import did_you_mean
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import GroupVersionKind
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.dra_features import DRAFeatures
from kubeskew.apiserver.features import Features
from kubeskew.apiserver.registry.defaulting import DefaultingContext, defaulter_of
from kubeskew.apiserver.registry.resource.deviceclass import class_errors
from kubeskew.apiserver.registry.resource.devicetaintrule import taint_rule_errors
from kubeskew.apiserver.registry.resource.resourceclaim.validation import claim_spec_errors
from kubeskew.apiserver.registry.resource.resourceslice.validation import slice_errors
from kubeskew.cluster.failures import UserError
from kubeskew.cluster.manifest_files import documents, field_of, typed
from kubeskew.scheduler.allocator.allocated_state import AllocatedDevices
from kubeskew.scheduler.allocator.allocator import Allocator, NodeSolution
from kubeskew.scheduler.allocator.claims import AllocationError, allocated_devices, allocation
from kubeskew.scheduler.allocator.explanation import Explanation, explain
from kubeskew.scheduler.allocator.features import AllocatorFeatures
from kubeskew.scheduler.allocator.pools import SliceIndex
from kubeskew.scheduler.features import FILTER_SECONDS, SchedulerFeatures
from kubeskew.scheduler.plugins.dynamicresources.taint_rules import DeviceClasses, TaintRules

_JSON_KINDS = {"slices": "ResourceSlice", "classes": "DeviceClass", "claims": "ResourceClaim"}
_DEVICES = ("allocatedDevices", "allocatedShares", "consumedCapacity")
_Check = Callable[[Object, DRAFeatures], list[FieldError]]

_VALIDATIONS: Mapping[str, _Check] = {
    "DeviceClass": lambda spec, rules: class_errors(spec, None, rules),
    "ResourceSlice": lambda spec, rules: slice_errors(spec, None, rules),
    "ResourceClaim": lambda spec, rules: claim_spec_errors(spec, "spec", rules, stored=False),
    "ResourceClaimTemplate": lambda spec, rules: claim_spec_errors(
        spec.get("spec") or {}, "spec.spec", rules, stored=False
    ),
    "DeviceTaintRule": lambda spec, rules: taint_rule_errors(spec, None, rules),
}
_GROUP = "resource.k8s.io"
_VERSIONS = ("v1", "v1beta2", "v1beta1", "v1alpha3")
_KINDS = ("DeviceClass", "ResourceSlice", "ResourceClaim", "ResourceClaimTemplate", "DeviceTaintRule")
_UNUSABLE = (LookupError, TypeError, AttributeError, ValueError)
_NOWHERE = "node"  # represents any node if the files name none


def check_case(case: Any) -> None:
    """Raises UserError with the path of the first fault."""
    if not isinstance(case, dict):
        raise UserError("expected an object")
    _check_choice(case)
    field_of(case, "node")
    _at("node", _check_object, case["node"], "v1", "Node")
    for name, kind in _JSON_KINDS.items():
        for place, item in _items(case, name):
            _at(place, _check_object, item, "resource.k8s.io/v1", kind)
    for name in _DEVICES:
        for place, item in _items(case, name):
            _at(place, _check_device, item)


def _check_choice(case: Object) -> None:
    if not isinstance(case.get("version") or "", str):
        raise UserError('version: expected a text such as "1.36"')
    gates = case.get("featureGates") or {}
    if not isinstance(gates, dict) or not all(isinstance(value, bool) for value in gates.values()):
        raise UserError("featureGates: expected an object of true and false")
    for name in gates:
        if not known_gate(name):
            hint = did_you_mean(name, all_gates())
            raise UserError(f"featureGates: unrecognized feature gate: {name}{hint}")
    bugs = case.get("bugs") or {}
    if not isinstance(bugs, dict) or not all(isinstance(value, bool) for value in bugs.values()):
        raise UserError("bugs: expected an object of true and false")
    try:
        check_bugs(bugs, "scheduler")
    except ValueError as error:
        raise UserError(f"bugs: {error}") from error


def _items(case: Object, name: str) -> Iterator[tuple[str, Any]]:
    items = case.get(name) or []
    if not isinstance(items, list):
        raise UserError(f"{name}: expected a list")
    return ((f"{name}[{index}]", item) for index, item in enumerate(items))


def _at(place: str, check: Callable[..., None], *arguments: Any) -> None:
    try:
        check(*arguments)
    except UserError as error:
        raise UserError(f"{place}: {error}") from error


def _check_object(obj: Any, api_version: str, kind: str) -> None:
    if not isinstance(obj, dict):
        raise UserError("expected an object")
    typed({**obj, "apiVersion": api_version, "kind": kind})
    field_of(obj, "metadata", "name")
    spec = obj.get("spec") or {}
    if kind == "ResourceSlice":
        field_of(obj, "spec", "driver")
        field_of(obj, "spec", "pool", "name")
        for device in spec.get("devices") or ():
            field_of(device, "name")
    elif kind == "ResourceClaim":
        for request in (field_of(obj, "spec").get("devices") or {}).get("requests") or ():
            field_of(request, "name")


def _check_device(device: Any) -> None:
    if not isinstance(device, dict):
        raise UserError("expected an object")
    for name in ("driver", "pool", "device"):
        if not isinstance(field_of(device, name), str):
            raise UserError(f"{name}: expected a text")
    if not isinstance(device.get("consumedCapacity") or {}, dict):
        raise UserError("consumedCapacity: expected an object")


def validation_faults(obj: Object, kind: str, version: Version) -> list[FieldError]:
    """All gates are on in this validation."""
    every_gate = replace(
        Features.of(FeatureGates(version)).devices,
        consumable_capacity=True,
        list_attributes=True,
        fractional_capacity=True,
        partition_types=True,
    )
    return _VALIDATIONS[kind](obj.get("spec") or {}, every_gate)


@dataclass(slots=True)
class AllocationFiles:
    """Objects stand under `namespace/name`, in v1 and with defaults; the last one of a name counts."""

    classes: dict[str, Object] = field(default_factory=dict)
    slices: dict[str, Object] = field(default_factory=dict)
    claims: dict[str, Object] = field(default_factory=dict)
    rules: dict[str, Object] = field(default_factory=dict)
    nodes: dict[str, Object] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)  # what a server would refuse

    def node_labels(self) -> dict[str, Mapping[str, str]]:
        """Nodes that only slices name have the host name as their label."""
        found = {name: (node["metadata"].get("labels") or {}) for name, node in self.nodes.items()}
        for obj in self.slices.values():
            for part in (obj["spec"], *(obj["spec"].get("devices") or ())):
                name = part.get("nodeName")
                if name:
                    found.setdefault(name, {"kubernetes.io/hostname": name})
        return found


def load_files(paths: tuple[Path, ...], version: Version, gates: FeatureGates) -> AllocationFiles:
    """Raises UserError with file, document and fault."""
    files = AllocationFiles()
    reader = _Reader(files, version, DefaultingContext(Features.of(gates), SystemClock().now()))
    for path in paths:
        for where, obj in documents(path):
            try:
                files.warnings += [f"{where}: {text}" for text in reader.take(obj)]
            except UserError as error:
                raise UserError(f"{where}: {error}") from error
            except _UNUSABLE as error:
                raise UserError(f"{where}: not a usable {obj.get('kind')}: {_said(error)}") from error
    return files


def _said(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


class _Reader:
    """Methods raise UserError or one of _UNUSABLE."""

    def __init__(self, files: AllocationFiles, version: Version, defaulting: DefaultingContext) -> None:
        self._files = files
        self._version = version
        self._defaulting = defaulting

    def take(self, obj: Object) -> Iterator[str]:
        """Yields the reasons for which a server would refuse the object."""
        group, _, version = str(obj.get("apiVersion") or "").rpartition("/")
        kind = obj.get("kind")
        if not kind or not version:
            raise UserError("expected an object with apiVersion and kind")
        if (group, kind) == ("", "Node"):
            self._files.nodes[_name(obj)] = typed(obj)
            return
        if group != _GROUP or kind not in _KINDS:
            known = ", ".join((*_KINDS, "Node"))
            raise UserError(f"{kind} of {obj['apiVersion']} says nothing about devices: only {known} do")
        if version not in _VERSIONS:
            raise UserError(f"{obj['apiVersion']} is not a version with devices: {', '.join(_VERSIONS)} are")
        made = self._as_v1(obj, kind)
        self._store(kind, made)
        for fault in validation_faults(made, kind, self._version):
            if fault.type is ErrorType.TOO_MANY:
                raise UserError(str(fault))
            yield f"a server of {self._version} refuses {kind} {_name(made)}: {fault}"

    def _as_v1(self, obj: Object, kind: str) -> Object:
        _name(obj)
        made = convert(typed(copy.deepcopy(obj)), GroupVersionKind(_GROUP, "v1", kind))
        defaulter = defaulter_of(f"io.k8s.api.resource.v1.{kind}")
        if defaulter is not None:
            defaulter(made, self._defaulting)
        return made

    def _store(self, kind: str, obj: Object) -> None:
        name = _name(obj)
        if kind == "DeviceClass":
            self._files.classes[name] = obj
        elif kind == "ResourceSlice":
            _check_slice(obj)
            self._files.slices[name] = obj
        elif kind == "DeviceTaintRule":
            field_of(obj, "spec", "taint")
            self._files.rules[name] = obj
        else:
            claim = obj if kind == "ResourceClaim" else _from_template(obj)
            for request in (claim["spec"].get("devices") or {}).get("requests") or ():
                field_of(request, "name")
            metadata = claim["metadata"]
            self._files.claims[f"{metadata.setdefault('namespace', 'default')}/{name}"] = claim


def _from_template(template: Object) -> Object:
    metadata = {key: value for key, value in template["metadata"].items() if key in ("name", "namespace")}
    return {"metadata": metadata, "spec": template["spec"]["spec"]}


def _name(obj: Object) -> str:
    return str(field_of(obj, "metadata", "name"))


def _check_slice(obj: Object) -> None:
    for path in (("driver",), ("pool", "name"), ("pool", "resourceSliceCount")):
        field_of(obj, "spec", *path)
    for device in obj["spec"].get("devices") or ():
        field_of(device, "name")


@dataclass(frozen=True, slots=True)
class _Node:
    name: str
    labels: Mapping[str, str]


class AllocationRun:
    def __init__(self, files: AllocationFiles, version: Version, gates: FeatureGates) -> None:
        self._files = files
        self._features = AllocatorFeatures.of(gates)
        scheduler_features = SchedulerFeatures.of(gates)
        if not scheduler_features.devices:
            hint = "set DynamicResourceAllocation=true, or choose 1.31 or later"
            raise UserError(f"the scheduler of {version} allocates no devices: {hint}")
        classes = DeviceClasses()
        for device_class in files.classes.values():
            classes.set_class(device_class)
        taints = TaintRules(
            classes.get, self._features.cel, taints_all_unselected=self._features.taints_all_unselected
        )
        for rule in files.rules.values() if scheduler_features.device_taint_rules else ():
            taints.set_rule(rule)
        self._slices = SliceIndex(self._features)
        for slice_ in files.slices.values():
            self._slices.set_slice(taints.patched(slice_))
        self._state = self._allocated().state
        self._allocator = Allocator(self._features, classes, self._slices, self._state, SeededEntropy().uid)
        self.claim_names = [key for key, claim in files.claims.items() if allocation(claim) is None]
        if not self.claim_names:
            raise UserError("the files have no claim without an allocation")
        self._plans = self._allocator.plan([files.claims[name] for name in self.claim_names])

    def _allocated(self) -> AllocatedDevices:
        book = AllocatedDevices()
        for claim in self._files.claims.values():
            shares = self._features.gates.consumable_capacity
            for device in allocated_devices(allocation(claim), shares=shares):
                book.add(*device)
        return book

    def on_nodes(self, only: str | None, *, explained: bool) -> list[Object]:
        """Nodes have `{"name", "allocations": […] | None, "error"?, "explanation"?}`."""
        labels = self._files.node_labels()
        if only is not None and labels and only not in labels:
            raise UserError(f"no node {only} in the files; there are {', '.join(sorted(labels))}")
        names = [only] if only is not None else list(labels) or [_NOWHERE]
        return [self._on_node(_Node(name, labels.get(name, {})), explained=explained) for name in names]

    def _on_node(self, node: _Node, *, explained: bool) -> Object:
        found: NodeSolution | None = None
        answer: Object = {"name": node.name, "allocations": None}
        try:
            found = self._allocator.find(node, self._plans, lambda: deadline(FILTER_SECONDS))
            if found is None:
                answer["error"] = "cannot allocate all claims"
            else:
                answer["allocations"] = found.results()
        except AllocationError as error:
            answer["error"] = str(error)
        if explained:
            answer["explanation"] = _as_json(self._explanation(node, found))
        return answer

    def _explanation(self, node: _Node, found: NodeSolution | None) -> Explanation:
        solution = None if found is None else found.solution
        try:
            return explain(self._plans, self._slices, node, self._state, self._features, solution)
        except AllocationError:  # no pool was examined; the error explains it
            return Explanation((), ())


def _as_json(explanation: Explanation) -> Object:
    return {
        "pools": [{"pool": str(pool.pool), "verdict": pool.verdict} for pool in explanation.pools],
        "requests": [
            {
                "claim": request.claim,
                "request": request.request,
                "devices": [
                    {"device": str(device.device), "verdict": device.verdict} for device in request.devices
                ],
            }
            for request in explanation.requests
        ],
    }
