"""Core kinds except pods and services. Source: pkg/registry/core/*/strategy.go and core validation, 1.36."""

import base64
from collections.abc import Mapping

from apimachinery.errors import GroupResource, Object
from apimachinery.field import FieldError, forbidden, invalid, key, required, too_long
from apimachinery.validation import names
from apiserver.registry.strategies.shared import (
    BuiltIn,
    Counted,
    CreatedByUpdate,
    Returned,
    SpecKeptStatus,
)
from apiserver.registry.strategy import ScalePaths, Strategy, StrategyContext, keep, show
from apiserver.registry.validation import events, nodes, volume_claims, workloads
from apiserver.registry.validation.pod_spec import template_errors

MAX_DATA_BYTES = 1024 * 1024
_NAMESPACE_FINALIZER = "kubernetes"
_NAME_LABEL = "kubernetes.io/metadata.name"
_IMMUTABLE_DATA = "field is immutable when `immutable` is set"


class NamespaceStatus(SpecKeptStatus):
    """The finalizer in the spec stays; the phase is the controller's."""


class NamespaceFinalize(Strategy):
    """The finalize subresource: spec.finalizers changes, the status does not."""

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        keep(new, old, "status")

    def reset_fields(self, ctx: StrategyContext) -> tuple[tuple[str, ...], ...]:
        return (("status",),)


class NamespaceStrategy(BuiltIn):
    status = NamespaceStatus
    subresources = {"finalize": NamespaceFinalize}
    returns_deleted_object = True
    field_labels = ("status.phase",)

    def name_check(self, name: str, prefix: bool) -> list[str]:
        return names.dns1123_label(name, prefix)

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        obj["status"] = {"phase": "Active"}
        finalizers = obj.setdefault("spec", {}).setdefault("finalizers", None) or []
        if _NAMESPACE_FINALIZER not in finalizers:
            finalizers = [*finalizers, _NAMESPACE_FINALIZER]
        obj["spec"]["finalizers"] = finalizers
        self._label(obj)

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        keep(new.setdefault("spec", {}), old.get("spec") or {}, "finalizers")
        keep(new, old, "status")
        self._label(new)

    def _label(self, obj: Object) -> None:
        obj["metadata"].setdefault("labels", {})[_NAME_LABEL] = obj["metadata"].get("name", "")

    def mark_deleted(self, obj: Object, ctx: StrategyContext) -> None:
        obj.setdefault("status", {})["phase"] = "Terminating"

    def is_kept(self, obj: Object) -> bool:
        return bool((obj.get("spec") or {}).get("finalizers"))


class NodeStrategy(BuiltIn):
    status = SpecKeptStatus
    field_labels = ("spec.unschedulable",)

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        nodes.complete_cidrs(obj.setdefault("spec", {}))

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare_for_update(new, old, ctx)
        nodes.complete_cidrs(new.setdefault("spec", {}), old.get("spec") or {})

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return nodes.node_errors(obj)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return [*self.validate(new, ctx), *nodes.node_update_errors(new, old)]

    def fields(self, obj: Object) -> Mapping[str, str]:
        found = dict(super().fields(obj))
        found["spec.unschedulable"] = show(bool((obj.get("spec") or {}).get("unschedulable")))
        return found


def _data_size(obj: Object, *fields: str) -> int:
    size = 0
    for field in fields:
        for value in (obj.get(field) or {}).values():
            size += (
                len(base64.b64decode(value or ""))
                if field != "data" or obj["kind"] == "Secret"
                else len(value.encode())
            )
    return size


def _frozen(new: Object, old: Object, *fields: str) -> list[FieldError]:
    """What an `immutable` object may not change."""
    if not old.get("immutable"):
        return []
    errors = []
    if not new.get("immutable"):
        errors.append(forbidden("immutable", _IMMUTABLE_DATA))
    errors += [forbidden(name, _IMMUTABLE_DATA) for name in fields if new.get(name) != old.get(name)]
    return errors


class ConfigMapStrategy(BuiltIn):
    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        errors = []
        data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
        for field, values in (("data", data), ("binaryData", binary)):
            for name in sorted(values):
                errors += [invalid(key(field, name), name, text) for text in names.config_key(name)]
                if field == "data" and name in binary:
                    errors.append(invalid(key(field, name), name, "duplicate of key present in binaryData"))
        if _data_size(obj, "data", "binaryData") > MAX_DATA_BYTES:
            errors.append(too_long("", MAX_DATA_BYTES))
        return errors

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return [*_frozen(new, old, "data", "binaryData"), *self.validate(new, ctx)]


# Keys that a secret of a type must have.
_SECRET_KEYS = {
    "kubernetes.io/service-account-token": (),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_ACCOUNT = "kubernetes.io/service-account.name"


class SecretStrategy(BuiltIn):
    """`stringData` is only a way to write `data`."""

    field_labels = ("type",)

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        self._merge(obj)

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        self._merge(new)
        if not new.get("type"):
            keep(new, old, "type")

    def _merge(self, obj: Object) -> None:
        texts = obj.pop("stringData", None)
        if texts:
            data = obj["data"] = dict(obj.get("data") or {})
            data.update({name: base64.b64encode(text.encode()).decode() for name, text in texts.items()})

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        errors: list[FieldError] = []
        data = obj.get("data") or {}
        for name in sorted(data):
            errors += [invalid(key("data", name), name, text) for text in names.config_key(name)]
        if _data_size(obj, "data") > MAX_DATA_BYTES:
            errors.append(too_long("data", MAX_DATA_BYTES))
        kind = obj.get("type") or ""
        errors += [required(key("data", name)) for name in _SECRET_KEYS.get(kind, ()) if name not in data]
        if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & data.keys():
            errors += [required(key("data", name)) for name in ("username", "password")]
        account = (obj["metadata"].get("annotations") or {}).get(_ACCOUNT)
        if kind == "kubernetes.io/service-account-token" and not account:
            errors.append(required(key("metadata.annotations", _ACCOUNT)))
        return errors

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        errors = []
        if new.get("type") != old.get("type"):
            errors.append(invalid("type", new.get("type") or "", "field is immutable"))
        return [*errors, *_frozen(new, old, "data"), *self.validate(new, ctx)]


class ServiceAccountStrategy(BuiltIn):
    returns_deleted_object = True


class EventStrategy(BuiltIn):
    """Events of both groups; the hub has the core names."""

    allow_create_on_update = True
    field_labels = (
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
        "regarding.kind",
        "regarding.namespace",
        "regarding.name",
        "regarding.uid",
        "regarding.apiVersion",
        "regarding.resourceVersion",
        "regarding.fieldPath",
        "reportingController",
    )

    def name_check(self, name: str, prefix: bool) -> list[str]:
        return names.path_segment(name, prefix)  # generated names of core events end in a dot

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return events.event_errors(obj, newer=ctx.request_group == "events.k8s.io")

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return []

    def fields(self, obj: Object) -> Mapping[str, str]:
        found = dict(super().fields(obj))
        controller = obj.get("reportingComponent") or ""
        found["source"] = (obj.get("source") or {}).get("component") or controller
        found["reportingComponent"] = found["reportingController"] = controller
        for label in self.field_labels:
            if label.startswith("regarding."):
                found[label] = found[label.replace("regarding", "involvedObject")]
        return found


class ReplicationControllerStrategy(Counted):
    scale = ScalePaths()
    field_labels = ("status.replicas",)
    default_propagation = "Orphan"

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        spec = obj["spec"]
        errors = list(workloads.not_negative(spec, "spec", "replicas", "minReadySeconds"))
        if not spec.get("selector"):
            errors.append(required("spec.selector"))
        if spec.get("template") is None:
            return [*errors, required("spec.template")]
        labels = (spec["template"].get("metadata") or {}).get("labels") or {}
        if any(labels.get(name) != value for name, value in (spec.get("selector") or {}).items()):
            text = "`selector` does not match template `labels`"
            errors.append(invalid("spec.template.metadata.labels", labels, text))
        return errors + template_errors(spec["template"], "spec.template")


class VolumeClaimStrategy(Returned):
    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        obj["status"] = {"phase": "Pending"}

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return volume_claims.claim_errors(obj["spec"], "spec")

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return [*self.validate(new, ctx), *volume_claims.claim_update_errors(new, old)]


class VolumeStrategy(Returned):
    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        obj["status"] = {"phase": "Pending"}


STRATEGIES: dict[GroupResource, type[Strategy]] = {
    GroupResource("", "namespaces"): NamespaceStrategy,
    GroupResource("", "nodes"): NodeStrategy,
    GroupResource("", "configmaps"): ConfigMapStrategy,
    GroupResource("", "secrets"): SecretStrategy,
    GroupResource("", "serviceaccounts"): ServiceAccountStrategy,
    GroupResource("", "events"): EventStrategy,
    GroupResource("events.k8s.io", "events"): EventStrategy,
    GroupResource("", "replicationcontrollers"): ReplicationControllerStrategy,
    GroupResource("", "persistentvolumeclaims"): VolumeClaimStrategy,
    GroupResource("", "persistentvolumes"): VolumeStrategy,
    GroupResource("", "endpoints"): CreatedByUpdate,
}
