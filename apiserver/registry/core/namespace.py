"""Namespace: defaults, strategy and cells of tables.

Sources: pkg/apis/core/v1/defaults.go, pkg/registry/core/namespace/strategy.go and core validation, 1.36.
"""

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, index, invalid
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver import object_meta
from kubeskew.apiserver.registry.defaulting import DefaultingContext, fill, struct
from kubeskew.apiserver.registry.generic.builtin import BuiltIn, SpecKeptStatus
from kubeskew.apiserver.registry.generic.strategy import UPDATE, Check, Strategy, StrategyContext, keep
from kubeskew.apiserver.registry.tables.cells import Cells, Subject

_NAMESPACE_FINALIZER = "kubernetes"

_NAME_LABEL = "kubernetes.io/metadata.name"


def default_namespace(obj: Object, _: DefaultingContext) -> None:
    metadata = struct(obj, "metadata")
    if metadata.get("name"):
        struct(metadata, "labels")["kubernetes.io/metadata.name"] = metadata["name"]
    fill(struct(obj, "status"), phase="Active")


def _finalizer_errors(obj: Object, *, numbered: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    at = "spec.finalizers"
    for position, name in enumerate((obj.get("spec") or {}).get("finalizers") or []):
        where = index(at, position) if numbered else at
        errors += object_meta.finalizer_name_errors(name, where)
    return errors


class NamespaceStatus(SpecKeptStatus):
    """The finalizer in the spec stays; the phase follows from the deletion."""

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        phase = (new.get("status") or {}).get("phase") or ""
        ending = bool(new["metadata"].get("deletionTimestamp"))
        wanted = "Terminating" if ending else "Active"
        if phase == wanted:
            return []
        state = "is not empty" if ending else "is empty"
        return [invalid("status.Phase", phase, f"may only be '{wanted}' if `deletionTimestamp` {state}")]


class NamespaceFinalize(Strategy):
    """`spec.finalizers` changes, the status does not."""

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        keep(new, old, "status")

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return _finalizer_errors(new, numbered=True)

    def reset_fields(self, ctx: StrategyContext) -> tuple[tuple[str, ...], ...]:
        return (("status",),)


class NamespaceStrategy(BuiltIn):
    status = NamespaceStatus
    subresources = {"finalize": NamespaceFinalize}
    update_checks = (Check.METADATA, *UPDATE)
    has_own_delete = True
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

    def policy_of_mark(self, options: Object) -> str:
        """Not to orphan means foreground, unlike for other kinds (storage.go, Delete)."""
        if options.get("orphanDependents") is not None:
            return "Orphan" if options["orphanDependents"] else "Foreground"
        return options.get("propagationPolicy") or ""

    def mark_deleted(self, obj: Object, ctx: StrategyContext) -> None:
        obj.setdefault("status", {})["phase"] = "Terminating"

    def stays_after_delete(self, obj: Object) -> bool:
        """The first deletion only sets the time, even if nothing has to be waited for."""
        return bool((obj.get("spec") or {}).get("finalizers")) or not obj["metadata"].get("deletionTimestamp")


def namespace_cells(subject: Subject) -> Cells:
    return {"Status": subject.text("status", "phase")}
