"""Core kinds except pods and services. Source: pkg/registry/core/*/strategy.go and core validation, 1.36."""

from kubeskew.apimachinery.errors import GroupResource, Object
from kubeskew.apimachinery.field import FieldError, index, invalid
from kubeskew.apimachinery.validation import names, object_meta
from kubeskew.apiserver.registry.strategies.data import ConfigMapStrategy, SecretStrategy
from kubeskew.apiserver.registry.strategies.shared import BuiltIn, CreatedByUpdate, SpecKeptStatus
from kubeskew.apiserver.registry.strategies.volumes import VolumeClaimStrategy, VolumeStrategy
from kubeskew.apiserver.registry.strategy import Strategy, StrategyContext, keep, show
from kubeskew.apiserver.registry.validation import endpoints, nodes
from kubeskew.apiserver.registry.warnings.services import endpoint_warnings
from kubeskew.apiserver.user import SERVER

_NAMESPACE_FINALIZER = "kubernetes"
_NAME_LABEL = "kubernetes.io/metadata.name"
_ENDPOINT_WARNINGS_SINCE = 33
_ENFORCING_DEPRECATED_SINCE = 32
_ENFORCE = "kubernetes.io/enforce-mountable-secrets"
_ENFORCED = (
    f"metadata.annotations[{_ENFORCE}]: deprecated in v1.32+; prefer separate namespaces to isolate access "
    "to mounted secrets"
)
_NODE_WARNINGS = {
    "configSource": "spec.configSource: the feature is no longer supported",
    "externalID": "spec.externalID: deprecated since v1.11; this field is unused and ignored",
}


def _finalizer_errors(obj: Object, *, numbered: bool) -> list[FieldError]:
    """Of a namespace's own finalizers; `numbered`: told which one it is."""
    errors: list[FieldError] = []
    at = "spec.finalizers"
    for position, name in enumerate((obj.get("spec") or {}).get("finalizers") or []):
        where = index(at, position) if numbered else at
        errors += object_meta.finalizer_name_errors(name, where)
    return errors


class NamespaceStatus(SpecKeptStatus):
    """The finalizer in the spec stays; the phase is the controller's, and follows from the deletion."""

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        phase = (new.get("status") or {}).get("phase") or ""
        ending = bool(new["metadata"].get("deletionTimestamp"))
        wanted = "Terminating" if ending else "Active"
        if phase == wanted:
            return []
        state = "is not empty" if ending else "is empty"
        return [invalid("status.Phase", phase, f"may only be '{wanted}' if `deletionTimestamp` {state}")]


class NamespaceFinalize(Strategy):
    """The finalize subresource: spec.finalizers changes, the status does not."""

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        keep(new, old, "status")

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return _finalizer_errors(new, numbered=True)

    def reset_fields(self, ctx: StrategyContext) -> tuple[tuple[str, ...], ...]:
        return (("status",),)


class NamespaceStrategy(BuiltIn):
    status = NamespaceStatus
    subresources = {"finalize": NamespaceFinalize}
    asks_as_new = 1
    keeps_itself = True
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

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return _finalizer_errors(obj, numbered=False)

    def mark_deleted(self, obj: Object, ctx: StrategyContext) -> None:
        obj.setdefault("status", {})["phase"] = "Terminating"

    def is_kept(self, obj: Object) -> bool:
        """A first deletion only marks, whatever there is to wait for."""
        return bool((obj.get("spec") or {}).get("finalizers")) or not obj["metadata"].get("deletionTimestamp")


class NodeStatus(SpecKeptStatus):
    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return nodes.node_update_errors(new, old)


class NodeStrategy(BuiltIn):
    status = NodeStatus
    asks_as_new = 1
    field_labels = ("spec.unschedulable",)

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        nodes.complete_cidrs(obj.setdefault("spec", {}))

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare_for_update(new, old, ctx)
        nodes.complete_cidrs(new.setdefault("spec", {}), old.get("spec") or {})

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return nodes.node_errors(obj, strict=ctx.gates.enabled("StrictIPCIDRValidation"))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return [*self.validate(new, ctx), *nodes.node_update_errors(new, old)]

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        spec = obj.get("spec") or {}
        return [text for name, text in _NODE_WARNINGS.items() if spec.get(name)]

    def fields(self, obj: Object) -> dict[str, str]:
        found = super().fields(obj)
        found["spec.unschedulable"] = show(bool((obj.get("spec") or {}).get("unschedulable")))
        return found


class ServiceAccountStrategy(BuiltIn):
    """Of the secrets that it may mount, only names are kept."""

    asks_as_new = 1
    returns_deleted_object = True

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        super().prepare_for_create(obj, ctx)
        self._keep_names(obj)

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare_for_update(new, old, ctx)
        self._keep_names(new)

    def _keep_names(self, obj: Object) -> None:
        if obj.get("secrets"):
            obj["secrets"] = [{"name": one["name"]} if one.get("name") else {} for one in obj["secrets"]]

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        told = ctx.version.minor >= _ENFORCING_DEPRECATED_SINCE
        return [_ENFORCED] if told and _ENFORCE in (obj["metadata"].get("annotations") or {}) else []

    def update_warnings(self, new: Object, old: Object, ctx: StrategyContext) -> list[str]:
        had = _ENFORCE in (old["metadata"].get("annotations") or {})
        return [] if had else self.warnings(new, ctx)


class EndpointsStrategy(CreatedByUpdate):
    asks_as_new = 1

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return self._errors(obj, None, ctx)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return self._errors(new, old, ctx)

    def _errors(self, new: Object, old: Object | None, ctx: StrategyContext) -> list[FieldError]:
        strict, local = ctx.gates.enabled("StrictIPCIDRValidation"), ctx.user.name == SERVER.name
        return list(endpoints.endpoints_errors(new, old, strict=strict, local=local))

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return endpoint_warnings(obj) if ctx.version.minor >= _ENDPOINT_WARNINGS_SINCE else []


STRATEGIES: dict[GroupResource, type[Strategy]] = {
    GroupResource("", "namespaces"): NamespaceStrategy,
    GroupResource("", "nodes"): NodeStrategy,
    GroupResource("", "configmaps"): ConfigMapStrategy,
    GroupResource("", "secrets"): SecretStrategy,
    GroupResource("", "serviceaccounts"): ServiceAccountStrategy,
    GroupResource("", "persistentvolumeclaims"): VolumeClaimStrategy,
    GroupResource("", "persistentvolumes"): VolumeStrategy,
    GroupResource("", "endpoints"): EndpointsStrategy,
}
