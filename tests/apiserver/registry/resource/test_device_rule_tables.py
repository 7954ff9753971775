# ruff: noqa: E501 - upstream's texts stand whole
"""Claims, classes and slices are validated, minor by minor: the rules themselves, without a server."""

from dataclasses import replace
from typing import Any

import pytest

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.dra_features import DRAFeatures
from kubeskew.apiserver.features import Features
from kubeskew.apiserver.registry.resource.deviceclass import class_errors
from kubeskew.apiserver.registry.resource.devicetaintrule import taint_rule_errors, taint_rule_status_errors
from kubeskew.apiserver.registry.resource.resourceclaim.status_validation import claim_status_errors
from kubeskew.apiserver.registry.resource.resourceclaim.validation import claim_spec_errors
from kubeskew.apiserver.registry.resource.resourcepoolstatusrequest import (
    request_status_errors,
)
from kubeskew.apiserver.registry.resource.resourceslice.validation import slice_errors

NOW = "2026-01-01T00:00:00Z"
ID_TEXT = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')"
LABEL_TEXT = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
SUBDOMAIN_TEXT = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
REQUEST_TEXT = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)


def exact(name: str = "r", **fields: Any) -> Any:
    defaults = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    return {"name": name, "exactly": {**defaults, **fields}}


def sub(name: str = "s", **fields: Any) -> Any:
    return {"name": name, "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1, **fields}


def rules_of(minor: int, **gates: bool) -> DRAFeatures:
    """The rules of a minor with only these gates."""
    off = dict.fromkeys(
        ("consumable_capacity", "list_attributes", "fractional_capacity", "partition_types"), False
    )
    return replace(Features.of(FeatureGates(Version(minor))).devices, **{**off, **gates})


def errors_of_claim(
    minor: int, *requests: Any, gates: dict[str, bool] | None = None, **devices: Any
) -> list[str]:
    spec = {"devices": {"requests": list(requests), **devices}}
    return [
        str(error)
        for error in claim_spec_errors(spec, "spec", rules_of(minor, **(gates or {})), stored=False)
    ]


R = "spec.devices.requests[0]"


@pytest.mark.parametrize(
    ("minor", "request_", "wanted"),
    [
        (36, exact("R"), [f'{R}.name: Invalid value: "R": {LABEL_TEXT}']),
        (36, exact(deviceClassName="A"), [f'{R}.exactly.deviceClassName: Invalid value: "A": {SUBDOMAIN_TEXT}']),
        (32, {"name": "r"}, [f"{R}.deviceClassName: Required value", f'{R}.allocationMode: Unsupported value: "": supported values: "All", "ExactCount"']),
        (36, {"name": "r", "exactly": {}}, [f"{R}.exactly.deviceClassName: Required value", f'{R}.exactly.allocationMode: Unsupported value: "": supported values: "All", "ExactCount"']),
        (33, {"name": "r", "firstAvailable": [sub(), sub()]}, [f'{R}.firstAvailable[1].name: Duplicate value: "s"']),
        (36, {"name": "r", "firstAvailable": [sub(), sub()]}, [f'{R}.firstAvailable[1]: Duplicate value: "s"']),
        (36, {"name": "r", "firstAvailable": [sub("")]}, [f'{R}.firstAvailable[0].name: Invalid value: "": {LABEL_TEXT}']),
        (36, {"name": "r", "firstAvailable": [sub(f"s{n}") for n in range(9)]}, [f"{R}.firstAvailable: Too many: 9: must have at most 8 items"]),
        (34, {**exact(deviceClassName=""), "firstAvailable": [sub("")]}, [f"{R}: Invalid value: null: exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set", f"{R}.exactly.deviceClassName: Required value", f'{R}.firstAvailable[0].name: Invalid value: "": {LABEL_TEXT}']),
        (36, {**exact(deviceClassName=""), "firstAvailable": [sub("")]}, [f"{R}: Invalid value: null: exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"]),
        (36, exact(selectors=[{}] * 33), [f"{R}.exactly.selectors: Too many: 33: must have at most 32 items"]),
        (36, exact(selectors=[{"cel": {"expression": "x" * 10241}}]), [f"{R}.exactly.selectors[0].cel.expression: Too long: may not be more than 10240 bytes"]),
        (36, exact(tolerations=[{"operator": "Equal"}] * 17), []),
        (36, exact(tolerations=[{"operator": "Exists", "value": "v"}]), [f'{R}.exactly.tolerations[0].value: Invalid value: "v": must be empty for operator `Exists`']),
        (36, exact(tolerations=[{"key": "k"}]), [f"{R}.exactly.tolerations[0].operator: Required value"]),
        (36, exact(tolerations=[{"operator": "Like"}]), [f'{R}.exactly.tolerations[0].operator: Unsupported value: "Like": supported values: "Equal", "Exists"']),
        (34, exact(tolerations=[{"operator": "Exists", "effect": "None"}]), [f'{R}.exactly.tolerations[0].effect: Unsupported value: "None": supported values: "NoExecute", "NoSchedule"']),
        (35, exact(tolerations=[{"operator": "Exists", "effect": "None"}]), []),
        (35, exact(tolerations=[{"operator": "Exists", "effect": "X"}]), [f'{R}.exactly.tolerations[0].effect: Unsupported value: "X": supported values: "NoExecute", "NoSchedule", "None"']),
    ],
)  # fmt: skip
def test_requests(minor: int, request_: Any, wanted: list[str]) -> None:
    """Names, classes, alternatives, selectors, tolerations."""
    assert errors_of_claim(minor, request_) == wanted


def test_a_list_over_its_limit() -> None:
    """Until 1.34 its items are reported too, and before 1.32 in other words."""
    many = [exact(f"r{n}") for n in range(32)]
    assert errors_of_claim(36, *many, exact("")) == [
        "spec.devices.requests: Too many: 33: must have at most 32 items"
    ]
    name = f'spec.devices.requests[32].name: Invalid value: "": {LABEL_TEXT}'
    assert errors_of_claim(34, *many, exact("")) == [
        name,
        "spec.devices.requests: Too many: 33: must have at most 32 items",
    ]
    assert errors_of_claim(31, *many, exact("")) == [
        name,
        "spec.devices.requests: Too long: may not be longer than 32",
    ]


C = "spec.devices.constraints[0]"


@pytest.mark.parametrize(
    ("minor", "constraint", "wanted"),
    [
        (36, {"matchAttribute": ""}, [f'{C}.matchAttribute: Invalid value: "": {ID_TEXT}', f'{C}.matchAttribute: Invalid value: "": a fully qualified name must be a domain and a name separated by a slash']),
        (34, {"matchAttribute": ""}, [f"{C}.matchAttribute: Required value: name required"]),
        (34, {"matchAttribute": "a"}, [f'{C}.matchAttribute: Invalid value: "a": must include a domain']),
        (31, {"matchAttribute": "a"}, [f"{C}.matchAttribute.domain: Required value: must include a prefix"]),
        (36, {"matchAttribute": "/a"}, [f'{C}.matchAttribute: Invalid value: "": the domain must not be empty']),
        (34, {"matchAttribute": "/a"}, [f"{C}.matchAttribute: Required value: the domain must not be empty"]),
        (36, {"matchAttribute": "a/"}, [f'{C}.matchAttribute: Invalid value: "": the name must not be empty']),
        (36, {"matchAttribute": "A/b"}, []),
        (36, {"matchAttribute": "a/b/c"}, []),
        (36, {"matchAttribute": "a/b-c"}, [f'{C}.matchAttribute: Invalid value: "b-c": {ID_TEXT}']),
        (34, {"matchAttribute": "a/b-c"}, [f'{C}.matchAttribute: Invalid value: "b-c": {ID_TEXT}']),
        (36, {"matchAttribute": "a/" + "b" * 33}, [f"{C}.matchAttribute: Too long: may not be more than 32 bytes"]),
        (36, {"matchAttribute": "a" * 64 + "/b"}, [f"{C}.matchAttribute: Too long: may not be more than 63 bytes"]),
        (36, {}, [f"{C}.matchAttribute: Required value"]),
        (36, {"distinctAttribute": "a"}, [f'{C}.distinctAttribute: Invalid value: "a": a fully qualified name must be a domain and a name separated by a slash']),
        (36, {"requests": ["r", "r"], "matchAttribute": "a/b"}, [f'{C}.requests[1]: Duplicate value: "r"']),
        (36, {"requests": ["r/s/t"], "matchAttribute": "a/b"}, [f'{C}.requests[0]: Invalid value: "r/s/t": {REQUEST_TEXT}']),
        (36, {"requests": ["r/"], "matchAttribute": "a/b"}, [f'{C}.requests[0]: Invalid value: "": {LABEL_TEXT}', f'{C}.requests[0]: Invalid value: "r/": {REQUEST_TEXT}']),
    ],
)  # fmt: skip
def test_constraints(minor: int, constraint: Any, wanted: list[str]) -> None:
    """Attributes need a domain, requests must be in the claim."""
    assert errors_of_claim(minor, exact(), constraints=[constraint]) == wanted


def test_a_constraint_of_nothing_with_consumable_capacity() -> None:
    """Upstream's text says the contrary of what is wrong."""
    wanted = f'{C}: Required value: exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
    assert errors_of_claim(36, exact(), constraints=[{}], gates={"consumable_capacity": True}) == [wanted]


P = "spec.devices.config[0].opaque"


@pytest.mark.parametrize(
    ("minor", "opaque", "wanted"),
    [
        (36, {"driver": "D", "parameters": {}}, []),
        (36, {"parameters": {}}, [f"{P}.driver: Required value"]),
        (34, {"parameters": {}}, [f"{P}.driver: Required value", f'{P}.driver: Invalid value: "": {SUBDOMAIN_TEXT}']),
        (36, {"driver": "d" * 64, "parameters": {}}, [f"{P}.driver: Too long: may not be more than 63 bytes"]),
        (36, {"driver": "d"}, [f"{P}.parameters: Required value"]),
        (36, {"driver": "d", "parameters": []}, [f'{P}.parameters: Invalid value: "<value omitted>": must be a valid JSON object']),
        (33, {"driver": "d", "parameters": []}, [f'{P}.parameters: Invalid value: "<value omitted>": parameters must be a valid JSON object']),
        (36, {"driver": "d", "parameters": {"a": "x" * 10240}}, [f"{P}.parameters: Too long: may not be more than 10240 bytes"]),
        (36, {"driver": "d", "parameters": {"a": "x" * 10232}}, []),
        (31, {"driver": "d", "parameters": {"a": "x" * 10240}}, []),
    ],
)  # fmt: skip
def test_opaque_configurations(minor: int, opaque: Any, wanted: list[str]) -> None:
    """A driver and an object of at most ten kibibytes."""
    assert errors_of_claim(minor, exact(), config=[{"opaque": opaque}]) == wanted


def errors_of_slice(
    minor: int, *devices: Any, old: Any = None, gates: Any = None, **fields: Any
) -> list[str]:
    spec = {"driver": "d", "nodeName": "n", "pool": {"name": "p", "resourceSliceCount": 1}, **fields}
    spec = {name: value for name, value in spec.items() if value is not None}
    if devices:
        spec["devices"] = list(devices)
    return [str(error) for error in slice_errors(spec, old, rules_of(minor, **(gates or {})))]


D = "spec.devices[0]"
PER_DEVICE = {"nodeName": None, "perDeviceNodeSelection": True}
ONE_OF = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec"


@pytest.mark.parametrize(
    ("minor", "device", "fields", "wanted"),
    [
        (36, {"name": "D"}, {}, [f'{D}.name: Invalid value: "D": {LABEL_TEXT}']),
        (36, {"name": "d", "attributes": {"x": {}}}, {}, [f'{D}.attributes[x]: Invalid value: "": exactly one value must be specified']),
        (34, {"name": "d", "attributes": {"x": {}}}, {}, [f"{D}.attributes[x]: Required value: exactly one value must be specified"]),
        (32, {"name": "d", "attributes": {"x": {}}}, {}, [f"{D}.basic.attributes[x]: Required value: exactly one value must be specified"]),
        (36, {"name": "d", "attributes": {"x": {"string": "s" * 65}}}, {}, [f"{D}.attributes[x].string: Too long: may not be more than 64 bytes"]),
        (36, {"name": "d", "attributes": {"x": {"version": "1." * 40}}}, {}, [f'{D}.attributes[x].version: Invalid value: "{"1." * 40}": must be a string compatible with semver.org spec 2.0.0', f"{D}.attributes[x].version: Too long: may not be more than 64 bytes"]),
        (36, {"name": "d", "attributes": {"x": {"ints": []}}}, {}, [f"{D}.attributes[x].ints: Invalid value: []: must not be empty if specified"]),
        (36, {"name": "d", "attributes": {"x": {"versions": ["1.0.0", "1"]}}}, {}, [f'{D}.attributes[x].versions[1]: Invalid value: "1": must be a string compatible with semver.org spec 2.0.0']),
        (36, {"name": "d", "attributes": {"x": {"ints": list(range(49))}}}, {}, [f"{D}: Invalid value: 49: the total number of attribute values must not exceed 48"]),
        (36, {"name": "d", "attributes": {f"a{n}": {"int": 1} for n in range(20)}, "capacity": {f"c{n}": {"value": "1"} for n in range(13)}}, {}, [f"{D}: Invalid value: 33: the total number of attributes and capacities must not exceed 32"]),
        (36, {"name": "d", "attributes": {"a-b": {"int": 1}}}, {}, [f'{D}.attributes: Invalid value: "a-b": {ID_TEXT}']),
        (35, {"name": "d", "attributes": {"a-b": {"int": 1}}}, {}, [f'{D}.attributes[a-b]: Invalid value: "a-b": {ID_TEXT}']),
        (37, {"name": "d", "attributes": {"a-b": {"int": 1}}}, {}, [f'{D}.attributes: Invalid value: "a-b": {ID_TEXT}']),
        (35, {"name": "d", "attributes": {"b" * 99: {"int": 1}}}, {}, [f"{D}.attributes[{'b' * 47}...{'b' * 46}]: Too long: may not be more than 32 bytes"]),
        (36, {"name": "d", "taints": [{"key": "k"}]}, {}, [f"{D}.taints[0].effect: Required value"]),
        (34, {"name": "d", "taints": [{"key": "k", "effect": "NoExecute"}] * 5}, {}, [f"{D}.taints: Too many: 5: must have at most 4 items"]),
        (36, {"name": "d", "taints": [{"key": "k", "effect": "NoExecute"}] * 17}, {}, [f"{D}.taints: Too many: 17: must have at most 16 items"]),
        (36, {"name": "d", "consumesCounters": [{}]}, {}, [f"{D}.consumesCounters[0].counterSet: Required value", f"{D}.consumesCounters[0].counters: Required value"]),
        (36, {"name": "d", "consumesCounters": [{"counterSet": f"s{n}", "counters": {"c": {"value": "1"}}} for n in range(3)]}, {}, [f"{D}.consumesCounters: Too many: 3: must have at most 2 items"]),
        (36, {"name": "d", "consumesCounters": [{"counterSet": "s", "counters": {f"c{n}": {"value": "1"} for n in range(33)}}]}, {}, [f"{D}.consumesCounters[0].counters: Too many: 33: must have at most 32 items"]),
        (36, {"name": "d", "consumesCounters": [{"counterSet": "s", "counters": {"C": {"value": "1"}}}]}, {}, [f'{D}.consumesCounters[0].counters: Invalid value: "C": {LABEL_TEXT}']),
        (34, {"name": "d", "consumesCounters": [{"counterSet": "s", "counters": {"c": {"value": "1"}}}]}, {}, [f'{D}.consumesCounters[0].counterSet: Invalid value: "s": must reference a counterSet defined in the ResourceSlice sharedCounters']),
        (34, {"name": "d", "consumesCounters": [{"counterSet": "s", "counters": {"c": {"value": "1"}}}]}, {"sharedCounters": [{"name": "s", "counters": {"x": {"value": "1"}}}]}, [f'{D}.consumesCounters[0].counters: Invalid value: "c": must reference a counter defined in the ResourceSlice sharedCounters']),
        (36, {"name": "d", "nodeName": "n"}, {}, [f"{D}: Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec"]),
        (36, {"name": "d"}, PER_DEVICE, [f"{D}: Required value: {ONE_OF}"]),
        (36, {"name": "d", "nodeName": "n", "allNodes": True}, PER_DEVICE, [f'{D}: Invalid value: "{{`nodeName`, `allNodes`}}": {ONE_OF}']),
        (36, {"name": "d", "nodeName": "", "allNodes": True}, PER_DEVICE, [f'{D}.nodeName: Invalid value: "": must not be empty']),
        (36, {"name": "d", "allNodes": False}, PER_DEVICE, [f"{D}.allNodes: Invalid value: false: must be either unset or set to true", f"{D}: Required value: {ONE_OF}"]),
        (36, {"name": "d", "bindingConditions": ["a", "a"], "bindingFailureConditions": ["a"]}, {}, [f'{D}.bindingConditions[1]: Duplicate value: "a"', f'{D}.bindingFailureConditions[0]: Invalid value: "a": bindingFailureConditions must not overlap with bindingConditions']),
        (36, {"name": "d", "bindingConditions": ["a"]}, {}, [f"{D}.bindingFailureConditions: Invalid value: null: bindingFailureConditions are required to use bindingConditions"]),
        (36, {"name": "d", "bindingConditions": list("abcde"), "bindingFailureConditions": ["x"]}, {}, [f"{D}.bindingConditions: Too many: 5: must have at most 4 items"]),
        (37, {"name": "d", "nodeAllocatableResources": {"gpu": {}}}, {}, [f'{D}.nodeAllocatableResources[gpu]: Invalid value: "gpu": must be a node allocatable resource name', f"{D}.nodeAllocatableResources[gpu]: Required value: at least one of mapping or overhead must be set"]),
        (37, {"name": "d", "nodeAllocatableResources": {"cpu": {"mapping": {"capacityKey": "x"}}}}, {}, [f'{D}.nodeAllocatableResources[cpu].mapping.capacityKey: Not found: "x"', f"{D}.nodeAllocatableResources[cpu].mapping.capacityMultiplier: Required value: capacityMultiplier is required when capacityKey is set"]),
        (37, {"name": "d", "nodeAllocatableResources": {"cpu": {"overhead": {"perPod": "-1"}}}}, {}, [f'{D}.nodeAllocatableResources[cpu].overhead.perPod: Invalid value: "-1": must be non-negative']),
        (37, {"name": "d"}, {"skipNodeOperations": ["NodePrepareResources"]}, ['spec.skipNodeOperations: Invalid value: ["NodePrepareResources"]: NodePrepareResources cannot be skipped unless NodeUnprepareResources is also skipped']),
        (37, {"name": "d"}, {"skipNodeOperations": ["NodePrepareResources", "*"]}, []),
        (37, {"name": "d"}, {"partitionTypeAttribute": "d/t"}, ['spec.partitionTypeAttribute: Invalid value: "d/t": may only be set on a slice which declares devices that consume counters']),
        (37, {"name": "d", "consumesCounters": [{"counterSet": "s", "counters": {"c": {"value": "1"}}}]}, {"partitionTypeAttribute": "d/t"}, [f"{D}.attributes[d/t]: Required value: device consumes counters and `partitionTypeAttribute` names this attribute, so it must be set"]),
    ],
)  # fmt: skip
def test_devices_of_slices(minor: int, device: Any, fields: Any, wanted: list[str]) -> None:
    """Attributes, taints, counters, nodes, binding conditions, node resources."""
    assert errors_of_slice(minor, device, **fields) == wanted


@pytest.mark.parametrize(
    ("minor", "fields", "wanted"),
    [
        (36, {"nodeName": ""}, ['spec.nodeName: Invalid value: "": must be either unset or set to a non-empty string', "spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"]),
        (32, {"nodeName": ""}, ["spec: Required value: exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required"]),
        (32, {"allNodes": True}, ['spec: Invalid value: "{`nodeName`, `allNodes`}": exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required, but multiple fields are set']),
        (36, {"nodeName": None, "nodeSelector": {}}, ["spec.nodeSelector.nodeSelectorTerms: Required value: must have at least one node selector term", "spec.nodeSelector.nodeSelectorTerms: Invalid value: null: must have exactly one node selector term"]),
        (36, {"pool": {"name": "a//b", "resourceSliceCount": 1}}, [f'spec.pool.name: Invalid value: "": {SUBDOMAIN_TEXT}']),
        (36, {"sharedCounters": [{"name": f"s{n}", "counters": {"c": {"value": "1"}}} for n in range(9)]}, ["spec.sharedCounters: Too many: 9: must have at most 8 items"]),
        (36, {"sharedCounters": [{}]}, ["spec.sharedCounters[0].name: Required value", "spec.sharedCounters[0].counters: Required value"]),
        (34, {"sharedCounters": [{"name": f"s{n}", "counters": {f"c{m}": {"value": "1"} for m in range(5)}} for n in range(7)]}, ["spec.sharedCounters: Invalid value: 35: the total number of shared counters must not exceed 32"]),
    ],
)  # fmt: skip
def test_slices_around_their_devices(minor: int, fields: Any, wanted: list[str]) -> None:
    """Nodes, pool and shared counters."""
    assert errors_of_slice(minor, **fields) == wanted


@pytest.mark.parametrize(("minor", "refused"), [(34, True), (35, False)])
def test_how_many_counters_the_devices_of_a_slice_consume(minor: int, refused: bool) -> None:
    """1024 up to 1.34, though the text says 2048; since 1.35 each device is looked at alone."""
    names = {f"c{number}": {"value": "1"} for number in range(32)}
    sets = [{"name": "s", "counters": names}] if minor == 34 else None
    devices = [
        {"name": f"d{number}", "consumesCounters": [{"counterSet": "s", "counters": names}]}
        for number in range(33)
    ]
    text = "spec.devices: Invalid value: 1056: the total number of counters in devices must not exceed 1024"
    assert errors_of_slice(minor, *devices, sharedCounters=sets) == ([text] if refused else [])
    assert errors_of_slice(minor, *devices[:32], sharedCounters=sets) == []


def test_fewer_devices_with_advanced_features() -> None:
    """64 with taints or counters since 1.35, with lists since 1.36; 128 otherwise."""
    many = [{"name": f"d{n}"} for n in range(64)]
    tainted = {"name": "t", "taints": [{"key": "k", "effect": "NoExecute"}]}
    listed = {"name": "l", "attributes": {"a": {"ints": [1]}}}
    alone = ["spec.devices: Too many: 65: must have at most 64 items"]
    assert errors_of_slice(36, *many, {"name": "x"}) == []
    assert errors_of_slice(36, *many, tainted) == alone
    assert errors_of_slice(34, *many, tainted) == []
    assert errors_of_slice(36, *many, listed) == alone
    assert errors_of_slice(35, *many, listed) == []


POLICY = f"{D}.capacity[m].requestPolicy"


def policy(minor: int = 36, value: str = "10", gates: Any = None, **fields: Any) -> list[str]:
    capacity = {"m": {"value": value, "requestPolicy": fields}}
    return errors_of_slice(
        minor, {"name": "d", "allowMultipleAllocations": True, "capacity": capacity}, gates=gates
    )


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"default": "1", "validValues": ["1"], "validRange": {"min": "1"}}, [": Forbidden: exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the same time"]),
        ({"validValues": ["1"]}, [".default: Required value: required when validValues is defined"]),
        ({"validRange": {"min": "1"}}, [".default: Required value: required when validRange is defined"]),
        ({"default": "1", "validRange": {}}, [".validRange.min: Required value: required when validRange is defined"]),
        ({"default": "2", "validValues": ["1"]}, ['.validValues: Invalid value: "2": default value is not valid according to the requestPolicy']),
        ({"default": "1", "validValues": ["1", "1"]}, ['.validValues[1]: Duplicate value: "1"']),
        ({"default": "1", "validValues": ["2", "1"]}, ['.validValues[1]: Invalid value: "1": values must be sorted in ascending order']),
        ({"default": "1", "validValues": ["1", "11"]}, ['.validValues[1]: Invalid value: "11": option is larger than capacity value: 10']),
        ({"default": "1", "validValues": [str(n) for n in range(1, 12)], "value": "20"}, [".validValues: Too many: 11: must have at most 10 items", '.validValues: Invalid value: "1": default value is not valid according to the requestPolicy']),
        ({"default": "11", "validRange": {"min": "11"}}, ['.validRange.min: Invalid value: "11": min is larger than capacity value: 10']),
        ({"default": "1", "validRange": {"min": "2"}}, ['.validRange.min: Invalid value: "1": default is less than min: 2']),
        ({"minor": 37, "default": "1", "validRange": {"min": "2"}}, ['.validRange.default: Invalid value: "1": default is less than min: 2']),
        ({"default": "3", "validRange": {"min": "3", "max": "2"}}, ['.validRange.max: Invalid value: "3": min is larger than max: 2', '.validRange.max: Invalid value: "3": default is more than max: 2']),
        ({"default": "1", "validRange": {"min": "1", "max": "11"}}, ['.validRange.max: Invalid value: "11": max is larger than capacity value: 10']),
        ({"default": "2", "validRange": {"min": "1", "max": "4", "step": "2"}}, ['.validRange.step: Invalid value: "2": value is not a multiple of a given step (2) from (1)', '.validRange.step: Invalid value: "4": value is not a multiple of a given step (2) from (1)']),
        ({"default": "1", "validRange": {"min": "1", "step": "10"}}, ['.validRange.step: Invalid value: "10": one step 11 is larger than capacity value: 10']),
        ({"minor": 37, "default": "1", "validRange": {"min": "1", "step": "0"}}, ['.validRange.step: Invalid value: "0": must be greater than zero']),
        ({"minor": 37, "default": "-1", "validRange": {"min": "-1", "step": "1"}}, ['.validRange.default: Invalid value: "-1": must be greater than or equal to 0', '.validRange.min: Invalid value: "-1": must be greater than or equal to 0']),
        ({"minor": 37, "gates": {"fractional_capacity": True}, "default": "1500m", "validRange": {"min": "1", "step": "200m"}}, ['.validRange.step: Invalid value: "1500m": value is not a multiple of a given step (200m) from (1)']),
        ({"minor": 37, "gates": {"fractional_capacity": True}, "default": "1500u", "validRange": {"min": "1500u", "step": "1"}}, ['.validRange.default: Invalid value: "1500u": value cannot be represented as a milli value', '.validRange.min: Invalid value: "1500u": value cannot be represented as a milli value']),
    ],
)  # fmt: skip
def test_request_policies(given: Any, wanted: list[str]) -> None:
    """A request policy for a shared device's capacity is refused if its amounts contradict each other."""
    assert policy(**given) == [f"{POLICY}{text}" for text in wanted]


def test_what_did_not_change_is_not_looked_at() -> None:
    """Taints since 1.35, capacities since 1.37."""
    device = {
        "name": "d",
        "taints": [{"key": "k", "effect": "Odd"}],
        "capacity": {"m": {"value": "1", "requestPolicy": {"default": "1"}}},
    }
    old = {"driver": "d", "nodeName": "n", "pool": {"name": "p"}, "devices": [device]}
    assert errors_of_slice(37, device, old=old) == []
    assert len(errors_of_slice(36, device, old=old)) == 1
    assert len(errors_of_slice(34, device, old=old)) == 2


def errors_of_status(minor: int, status: Any, old: Any = None, **metadata: Any) -> list[str]:
    spec = {"devices": {"requests": [exact()]}}
    new = {"metadata": metadata, "spec": spec, "status": status}
    return [str(error) for error in claim_status_errors(new, {"status": old or {}}, rules_of(minor))]


RESULT = {"request": "r", "driver": "d", "pool": "p", "device": "x"}
DEVICE = {"driver": "d", "pool": "p", "device": "x"}
S, A = "status.devices[0]", "status.allocation.devices.results[0]"


DEVICE_ID = '{"Driver":"d","Pool":"p","Device":"x","ShareID":""}'
HIDDEN_ID = '{"Driver":{},"Pool":{},"Device":{},"ShareID":{}}'


def device_status(**fields: Any) -> Any:
    return {"allocation": {"devices": {"results": [RESULT]}}, "devices": [{**DEVICE, **fields}]}


@pytest.mark.parametrize(
    ("minor", "status", "wanted"),
    [
        (36, {"devices": [DEVICE]}, [f'{S}: Invalid value: {DEVICE_ID}: must be an allocated device in the claim']),
        (34, {"devices": [DEVICE]}, [f'{S}: Invalid value: {HIDDEN_ID}: must be an allocated device in the claim']),
        (33, {"devices": [DEVICE]}, [f"{S}: Invalid value: d/p/x: must be an allocated device in the claim"]),
        (36, device_status(driver=""), [f"{S}.driver: Required value", f"{S}: Invalid value: {DEVICE_ID.replace(chr(34) + 'd' + chr(34), chr(34) * 2)}: must be an allocated device in the claim"]),
        (36, device_status(conditions=[{"type": "T", "status": "True", "lastTransitionTime": NOW}]), [f"{S}.conditions[0].reason: Required value"]),
        (33, device_status(conditions=[{"type": "T", "status": "True", "lastTransitionTime": NOW}]), [f"{S}.conditions[0].reason: Required value: must be set"]),
        (36, {"allocation": {"devices": {"results": [{**RESULT, "tolerations": [{"operator": "No"}]}]}}}, []),
        (36, device_status(shareID="x"), [f'{S}.shareID: Invalid value: "x": error validating uid: invalid UUID length: 1', f'{S}: Invalid value: {DEVICE_ID[:-2]}x"}}: must be an allocated device in the claim']),
        (36, device_status(data=[]), [f'{S}.data: Invalid value: "<value omitted>": must be a valid JSON object']),
        (36, device_status(data={"a": "x" * 10240}), [f"{S}.data: Too long: may not be more than 10240 bytes"]),
        (36, device_status(conditions=[{"type": "T", "status": "Maybe", "reason": "R", "lastTransitionTime": NOW}]), [f'{S}.conditions[0].status: Unsupported value: "Maybe": supported values: "False", "True", "Unknown"']),
        (36, device_status(conditions=[{"type": f"T{n}", "status": "True", "reason": "R", "lastTransitionTime": NOW} for n in range(9)]), [f"{S}.conditions: Too many: 9: must have at most 8 items"]),
        (36, device_status(networkData={"interfaceName": "i" * 257, "hardwareAddress": "h" * 129}), [f"{S}.networkData.interfaceName: Too long: may not be more than 256 bytes", f"{S}.networkData.hardwareAddress: Too long: may not be more than 128 bytes"]),
        (36, device_status(networkData={"ips": ["10.9.8.7"]}), [f'{S}.networkData.ips[0]: Invalid value: "10.9.8.7": must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)']),
        (32, device_status(networkData={"ips": ["10.9.8.7"]}), [f'{S}.networkData.ips[0]: Invalid value: "10.9.8.7": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)']),
        (36, device_status(networkData={"ips": ["2001:0db8::1/64", "2001:db8::1/64"]}), [f'{S}.networkData.ips[0]: Invalid value: "2001:0db8::1/64": must be in canonical form ("2001:db8::1/64")']),
        (32, device_status(networkData={"ips": ["2001:0db8::1/64", "2001:db8::1/64"]}), [f'{S}.networkData.ips[1]: Duplicate value: "2001:db8::1/64"']),
        (36, device_status(networkData={"ips": [f"10.9.8.{n}/24" for n in range(17)]}), [f"{S}.networkData.ips: Too many: 17: must have at most 16 items"]),
        (36, {"reservedFor": [{}]}, ["status.reservedFor[0].resource: Required value", "status.reservedFor[0].name: Required value", "status.reservedFor[0].uid: Required value", "status.reservedFor: Forbidden: may not be specified when `allocated` is not set"]),
        (36, {"allocation": {"devices": {"results": [{**RESULT, "request": "q"}]}}}, [f'{A}.request: Invalid value: "q": {REQUEST_TEXT}']),
        (36, {"allocation": {"devices": {"results": [{**RESULT, "shareID": "F" * 8 + "-ffff-ffff-ffff-ffffffffffff"}]}}}, [f'{A}.shareID: Invalid value: "FFFFFFFF-ffff-ffff-ffff-ffffffffffff": uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters']),
        (36, {"allocation": {"devices": {"config": [{"opaque": {"driver": "d", "parameters": {}}}]}}}, ["status.allocation.devices.config[0].source: Required value"]),
        (36, {"allocation": {"devices": {"config": [{"source": "X", "opaque": {"driver": "d", "parameters": {}}}]}}}, ['status.allocation.devices.config[0].source: Unsupported value: "X": supported values: "FromClaim", "FromClass"']),
        (36, {"allocation": {"devices": {"results": [RESULT] * 33}}}, ["status.allocation.devices.results: Too many: 33: must have at most 32 items"]),
    ],
)  # fmt: skip
def test_claim_statuses(minor: int, status: Any, wanted: list[str]) -> None:
    """Reservations, results, and what drivers report."""
    assert errors_of_status(minor, status) == wanted


def test_repeated_devices_and_users() -> None:
    """A repeated entry is reported at a path that depends on the minor; names with slashes have no quotes."""
    status = {"allocation": {"devices": {"results": [RESULT]}}, "devices": [DEVICE, DEVICE]}
    assert errors_of_status(36, status) == [f"status.devices[1]: Duplicate value: {DEVICE_ID}"]
    assert errors_of_status(33, status) == ["status.devices[1].deviceID: Duplicate value: d/p/x"]
    user = {"resource": "pods", "name": "p", "uid": "u"}
    status = {"allocation": {"devices": {}}, "reservedFor": [user, user]}
    assert errors_of_status(36, status) == ['status.reservedFor[1]: Duplicate value: "u"']
    assert errors_of_status(33, status) == ['status.reservedFor[1].uid: Duplicate value: "u"']


@pytest.mark.parametrize("minor", [33, 34, 35, 36])
def test_devices_are_told_apart_by_all_of_their_names(minor: int) -> None:
    """Several devices of a claim may have a status, also in 1.34, whose errors hide their names."""
    results = [RESULT, {**RESULT, "device": "y"}]
    status = {"allocation": {"devices": {"results": results}}, "devices": [DEVICE, {**DEVICE, "device": "y"}]}
    assert errors_of_status(minor, status) == []


def test_nobody_joins_a_claim_that_goes() -> None:
    """Reservations may only be taken away then."""
    user = {"resource": "pods", "name": "p", "uid": "u"}
    status = {"allocation": {"devices": {}}, "reservedFor": [user]}
    text = "status.reservedFor: Forbidden: new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
    assert errors_of_status(36, status, {"allocation": {"devices": {}}}, deletionTimestamp=NOW) == [text]
    assert errors_of_status(36, status, status, deletionTimestamp=NOW) == []


def test_device_classes() -> None:
    """Unchanged selectors of a device class count as stored; since 1.37 they are not compiled again."""
    bad = {"selectors": [{"cel": {"expression": "nope"}}]}
    assert len(class_errors(bad, None, rules_of(36))) == 1
    assert len(class_errors(bad, bad, rules_of(36))) == 1
    assert class_errors(bad, bad, rules_of(37)) == []
    large = {"config": [{"opaque": {"driver": "d", "parameters": {"a": "x" * 10240}}}]}
    assert len(class_errors(large, None, rules_of(36))) == 1
    assert class_errors(large, large, rules_of(36)) == []
    newer = {"selectors": [{"cel": {"expression": "device.allowMultipleAllocations"}}]}
    assert len(class_errors(newer, None, rules_of(36))) == 1
    assert class_errors(newer, newer, rules_of(36)) == []


@pytest.mark.parametrize(
    ("minor", "spec", "wanted"),
    [
        (36, {"taint": {"key": "k", "effect": "NoExecute"}}, []),
        (36, {"taint": {"key": "", "effect": "NoExecute"}}, 2),
        (36, {"taint": {"key": "k", "effect": "X"}}, ['spec.taint.effect: Unsupported value: "X": supported values: "NoExecute", "NoSchedule", "None"']),
        (34, {"taint": {"key": "k", "effect": "None"}}, ['spec.taint.effect: Unsupported value: "None": supported values: "NoExecute", "NoSchedule"']),
        (36, {"taint": {"key": "k", "effect": "None"}, "deviceSelector": {"driver": "", "pool": "", "device": ""}}, ["spec.deviceSelector.driver: Required value", "spec.deviceSelector.pool: Required value", f'spec.deviceSelector.device: Invalid value: "": {LABEL_TEXT}']),
        (34, {"taint": {"key": "k", "effect": "NoExecute"}, "deviceSelector": {"selectors": [{}]}}, ["spec.deviceSelector.selectors[0].cel: Required value"]),
    ],
)  # fmt: skip
def test_taint_rules(minor: int, spec: Any, wanted: Any) -> None:
    """A taint, and which devices it is for."""
    found = [str(error) for error in taint_rule_errors(spec, None, rules_of(minor))]
    assert (len(found) if isinstance(wanted, int) else found) == wanted


def test_taint_rules_that_change() -> None:
    """An effect that is no longer known may stay since 1.35."""
    spec = {"taint": {"key": "k", "effect": "Odd"}}
    assert taint_rule_errors(spec, spec, rules_of(36)) == []
    assert len(taint_rule_errors(spec, spec, rules_of(34))) == 1
    condition = {"type": "T", "status": "True", "reason": "R", "lastTransitionTime": NOW}
    many = [{**condition, "type": f"T{n}"} for n in range(9)]
    wanted = ["status.conditions: Too many: 9: must have at most 8 items"]
    assert [str(error) for error in taint_rule_status_errors({"conditions": many}, rules_of(36))] == wanted


def test_pool_status_requests() -> None:
    """A status is written once; its conditions have the rules of all conditions."""
    rules, done = rules_of(36), {"poolCount": 0}
    assert list(request_status_errors(done, done, rules)) == []
    assert [str(error) for error in request_status_errors({"poolCount": 1}, done, rules)] == [
        'status: Invalid value: {"PoolCount":1,"Pools":null,"Conditions":null}: field is immutable'
    ]
    condition = {"type": "T", "status": "True", "reason": "R"}
    assert [str(error) for error in request_status_errors({"conditions": [condition]}, None, rules)] == [
        "status.conditions[0].lastTransitionTime: Required value"
    ]


@pytest.mark.parametrize(("minor", "reason"), [(33, "FieldValueTypeInvalid"), (34, "FieldValueInvalid")])
def test_malformed_identifiers_have_a_reason_by_minor(minor: int, reason: str) -> None:
    """Up to 1.33 an identifier that is none counts as a value of the wrong type."""
    spec = {"devices": {"requests": [exact()], "constraints": [{"matchAttribute": "a/b-c"}]}}
    errors = claim_spec_errors(spec, "spec", rules_of(minor), stored=False)
    assert [error.cause()["reason"] for error in errors] == [reason]
