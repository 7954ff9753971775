"""Reports what an API server would refuse of the objects that `kubeskew allocate` reads, and allocates all
the same."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.dra_features import DRAFeatures
from kubeskew.apiserver.features import features_of
from kubeskew.apiserver.registry.resource.deviceclass.validation import class_errors
from kubeskew.apiserver.registry.resource.devicetaintrule.validation import taint_rule_errors
from kubeskew.apiserver.registry.resource.resourceclaim.validation import claim_spec_errors
from kubeskew.apiserver.registry.resource.resourceslice.validation import slice_errors

_Check = Callable[[Object, DRAFeatures], list[FieldError]]

_CHECKS: Mapping[str, _Check] = {
    "DeviceClass": lambda spec, rules: class_errors(spec, None, rules),
    "ResourceSlice": lambda spec, rules: slice_errors(spec, None, rules),
    "ResourceClaim": lambda spec, rules: claim_spec_errors(spec, "spec", rules, stored=False),
    "ResourceClaimTemplate": lambda spec, rules: claim_spec_errors(
        spec.get("spec") or {}, "spec.spec", rules, stored=False
    ),
    "DeviceTaintRule": lambda spec, rules: taint_rule_errors(spec, None, rules),
}


def faults(obj: Object, kind: str, version: Version) -> list[FieldError]:
    """Returns why a server of the version, with all gates on, would not store the object; it has the shape
    of v1."""
    every_gate = replace(
        features_of(FeatureGates(version)).devices,
        consumable_capacity=True,
        list_attributes=True,
        fractional_capacity=True,
        partition_types=True,
    )
    return _CHECKS[kind](obj.get("spec") or {}, every_gate)
