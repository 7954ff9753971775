"""Required fields and enumerations are all that a schema alone demands of an object.

Built-in kinds whose strategy checks the whole object are left to it: upstream has no such generic step, and
the same error would be reported twice. Custom resources are checked along their definition's schema
elsewhere.
"""

from collections.abc import Iterator
from typing import Any, Final

from kubeskew.apimachinery.field import FieldError, child, index, key, not_supported, required
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.schema import Field, Kind, Schema

_API: Final = "io.k8s.api."
# Definition names without the prefix: their strategies have rules of their own for every field.
CHECKED_BY_STRATEGY: Final = frozenset(
    f"{_API}{group}.{version}.{kind}"
    for group, versions, kinds in (
        (
            "core",
            ("v1",),
            (
                "Pod",
                "Service",
                "Namespace",
                "Node",
                "ConfigMap",
                "Secret",
                "Event",
                "ServiceAccount",
                "Binding",
            ),
        ),
        ("core", ("v1",), ("PersistentVolumeClaim", "PodTemplate", "ReplicationController", "Endpoints")),
        ("core", ("v1",), ("ResourceQuota", "LimitRange", "PersistentVolume")),
        ("apps", ("v1",), ("Deployment", "ReplicaSet", "DaemonSet", "StatefulSet", "ControllerRevision")),
        ("batch", ("v1",), ("Job", "CronJob")),
        ("events", ("v1",), ("Event",)),
        ("coordination", ("v1",), ("Lease",)),
        ("scheduling", ("v1",), ("PriorityClass",)),
        ("node", ("v1",), ("RuntimeClass",)),
        ("storage", ("v1",), ("StorageClass",)),
        (
            "flowcontrol",
            ("v1", "v1beta3", "v1beta2", "v1beta1"),
            ("FlowSchema", "PriorityLevelConfiguration"),
        ),
        (
            "admissionregistration",
            ("v1", "v1beta1", "v1alpha1"),
            (
                "ValidatingWebhookConfiguration",
                "MutatingWebhookConfiguration",
                "ValidatingAdmissionPolicy",
                "ValidatingAdmissionPolicyBinding",
                "MutatingAdmissionPolicy",
                "MutatingAdmissionPolicyBinding",
            ),
        ),
        (
            "resource",
            ("v1", "v1beta2", "v1beta1", "v1alpha3"),
            ("ResourceClaim", "ResourceClaimTemplate", "ResourceSlice", "DeviceClass", "DeviceTaintRule"),
        ),
    )
    for version in versions
    for kind in kinds
)


def validate(obj: Object, schema: Schema) -> list[FieldError]:
    """Errors come in schema order."""
    if schema.name in CHECKED_BY_STRATEGY or not schema.name:
        return []
    return [
        error
        for name, field in schema.fields.items()
        if name not in {"apiVersion", "kind", "metadata", "status"}
        for error in _field(obj, name, field, "")
    ]


def validate_update(new: Object, old: Object, schema: Schema) -> list[FieldError]:
    """A part that did not change is not looked at again (ratcheting)."""
    changed = {name: value for name, value in new.items() if old.get(name) != value}
    missing = {name: value for name, value in new.items() if name not in changed}
    return [
        error
        for error in validate({**missing, **changed}, schema)
        if error.path.partition(".")[0].partition("[")[0] not in missing
    ]


def _field(obj: Object, name: str, field: Field, path: str) -> Iterator[FieldError]:
    at = child(path, name)
    value = obj.get(name)
    if value is None or (value == "" and field.required):
        if field.required and not field.pointer and field.schema.kind in {Kind.STRING, Kind.LIST, Kind.MAP}:
            yield required(at)
        return
    yield from _value(value, field.schema, at)


def _value(value: Any, schema: Schema, path: str) -> Iterator[FieldError]:
    if schema.kind is Kind.OBJECT and isinstance(value, dict):
        for name, field in schema.fields.items():
            yield from _field(value, name, field, path)
    elif schema.kind is Kind.LIST and isinstance(value, list) and schema.items is not None:
        for position, item in enumerate(value):
            yield from _value(item, schema.items, index(path, position))
    elif schema.kind is Kind.MAP and isinstance(value, dict) and schema.items is not None:
        for name, item in value.items():
            yield from _value(item, schema.items, key(path, name))
    elif schema.enum and isinstance(value, str) and value and value not in schema.enum:
        yield not_supported(path, value, sorted(schema.enum))
