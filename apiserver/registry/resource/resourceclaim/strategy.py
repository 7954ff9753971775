"""ResourceClaim: defaults, strategies, access to devices as administrator (KEP-5018), cells of tables.

Sources: pkg/registry/resource/resourceclaim/strategy.go, pkg/printers/internalversion/printers.go, 1.36.
"""

from typing import Any, ClassVar

from kubeskew.apimachinery.field import FieldError, invalid
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.decoding.decoder import forget_empty_lists
from kubeskew.apiserver.dra_features import DRAFeatures
from kubeskew.apiserver.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.defaulting import DefaultingContext, each, fill, fill_null, struct
from kubeskew.apiserver.registry.generic.builtin import BuiltIn
from kubeskew.apiserver.registry.generic.strategy import (
    UPDATE,
    UPDATE_AS_NEW,
    Check,
    Checks,
    StatusStrategy,
    StrategyContext,
)
from kubeskew.apiserver.registry.resource.devices import as_v1
from kubeskew.apiserver.registry.resource.resourceclaim import status_validation
from kubeskew.apiserver.registry.resource.resourceclaim.status_validation import claim_access_errors
from kubeskew.apiserver.registry.resource.resourceclaim.validation import (
    admin_access_errors,
    claim_spec_errors,
)
from kubeskew.apiserver.registry.tables.cells import Cells, Subject
from kubeskew.apiserver.storage.encoding import copied


def _amount(request: Object) -> None:
    fill(request, allocationMode="ExactCount")
    if request["allocationMode"] == "ExactCount":
        fill(request, count=1)


def _tolerations(request: Object) -> None:
    for toleration in each(request, "tolerations"):
        fill(toleration, operator="Equal")


def default_claim_spec(spec: Object, *, inline: bool, rules: DRAFeatures) -> None:
    """`inline`: the exact request's fields stand in the request itself (v1beta1, v1alpha3)."""
    for request in each(spec.get("devices") or {}, "requests"):
        subrequests = each(request, "firstAvailable")
        exact = request if inline else request.get("exactly")
        if exact is not None and not (
            inline and rules.alternatives and (subrequests or not request.get("deviceClassName"))
        ):
            _amount(exact)
            if rules.admin_access_default:
                fill_null(exact, adminAccess=False)
        if exact is not None:
            _tolerations(exact)
        for subrequest in subrequests:
            _amount(subrequest)
            _tolerations(subrequest)


def _status(obj: Object) -> None:
    allocation = (obj.get("status") or {}).get("allocation") or {}
    for result in each(allocation.get("devices") or {}, "results"):
        _tolerations(result)


def default_claim(obj: Object, ctx: DefaultingContext) -> None:
    default_claim_spec(struct(obj, "spec"), inline=False, rules=ctx.features.devices)
    _status(obj)


def default_inline_claim(obj: Object, ctx: DefaultingContext) -> None:
    default_claim_spec(struct(obj, "spec"), inline=True, rules=ctx.features.devices)
    _status(obj)


def admin_label(ctx: StrategyContext) -> str:
    return ctx.features.devices.admin_label


def may_administer(obj: Object, ctx: StrategyContext) -> bool:
    """The claim's namespace must carry the label (where the release checks it)."""
    if not ctx.features.devices.checks_admin_label:
        return True
    namespace = ctx.get_entry("namespaces", "", obj["metadata"].get("namespace") or "") or {}
    labels = (namespace.get("metadata") or {}).get("labels") or {}
    return bool(labels.get(admin_label(ctx)) == "true")


class DRAStatusStrategy(StatusStrategy):
    """Status writes may change metadata until 1.29."""

    def metadata_kept(self, ctx: StrategyContext) -> tuple[str, ...]:
        return self.kept_metadata if ctx.features.devices.status_keeps_metadata else ()


class ClaimStatusStrategy(DRAStatusStrategy):
    """The spec stays; the status of devices that were given back goes."""

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare_for_update(new, old, ctx)
        status_validation.drop_deallocated(new, old)

    def reset_fields(self, ctx: StrategyContext) -> tuple[tuple[str, ...], ...]:
        return (("metadata",), ("spec",)) if ctx.features.devices.status_resets_metadata else (("spec",),)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        claim = as_v1(new, ctx)
        errors: list[FieldError] = []
        if not may_administer(new, ctx):
            errors += status_validation.admin_results_errors(new, old, admin_label(ctx))
        if ctx.features.devices.granular_status:
            errors += claim_access_errors(claim, as_v1(old, ctx), ctx)
        return errors + status_validation.claim_status_errors(claim, old, ctx.features.devices)


class ClaimStrategy(BuiltIn):
    """A claim's spec never changes."""

    weight = 16  # selectors: a millisecond each
    status = ClaimStatusStrategy
    returns_deleted_object = True
    _spec: ClassVar[tuple[str, ...]] = ("spec",)
    spec_type: ClassVar[str] = "resource.ResourceClaimSpec"
    changed_checks: ClassVar[Checks] = (Check.METADATA, *UPDATE)  # since 1.35

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        errors: list[FieldError] = []
        if not may_administer(obj, ctx):
            errors += admin_access_errors(self._claim_spec(obj, ctx), admin_label(ctx))
        return errors + self._errors(obj, ctx, stored=False)

    def update_checks_for(self, ctx: StrategyContext) -> Checks:
        """Until 1.34 a claim is checked as a new one, and once more as one that was stored; its metadata is
        checked as a new one's ever since."""
        as_new = ctx.features.devices.revalidates_on_update
        return (Check.METADATA, *UPDATE_AS_NEW) if as_new else self.changed_checks

    def validate_as_new(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return self._errors(new, ctx, stored=False)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        changed = self._change_errors(new, old, ctx)
        if not ctx.features.devices.revalidates_on_update:
            return changed
        return [*changed, *self._errors(new, ctx, stored=True)]

    def _change_errors(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        """A spec that changed is shown as upstream's internal type."""
        after, before = (as_v1(obj, ctx).get("spec") for obj in (new, old))
        if after == before or self._as_stored(new, ctx) == before:
            return []
        shown = ctx.features.devices.structs.shown(after, self.spec_type)
        return [invalid("spec", shown, IMMUTABLE)]

    def _as_stored(self, obj: Object, ctx: StrategyContext) -> Any:
        """The store makes null of empty lists, so both are equal."""
        stored = copied(obj)
        forget_empty_lists(stored, ctx.resource.schema)
        return as_v1(stored, ctx).get("spec")

    def _claim_spec(self, obj: Object, ctx: StrategyContext) -> Object:
        spec: Any = as_v1(obj, ctx)
        for name in self._spec:
            spec = spec.get(name) or {}
        return dict(spec)

    def _errors(self, obj: Object, ctx: StrategyContext, *, stored: bool) -> list[FieldError]:
        return claim_spec_errors(
            self._claim_spec(obj, ctx), ".".join(self._spec), ctx.features.devices, stored=stored
        )


def resource_claim_cells(subject: Subject) -> Cells:
    return {"State": ",".join(claim_states(subject))}


def claim_states(subject: Subject) -> list[str]:
    states = ["deleted"] if subject.deleted else []
    if subject.at("status", "allocation") is None:
        return states or ["pending"]
    states.append("allocated")
    if subject.count("status", "reservedFor"):
        states.append("reserved")
    return states
