"""PersistentVolume: defaults, strategy and cells of tables.

Sources: pkg/apis/core/v1/defaults.go, pkg/registry/core/persistentvolume/strategy.go, 1.36.
"""

from typing import ClassVar

from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting import DefaultingContext, fill, fill_null, struct
from kubeskew.apiserver.registry.generic.builtin import ReturnsDeletedObject, SpecKeptStatus
from kubeskew.apiserver.registry.generic.strategy import Check, Strategy, StrategyContext
from kubeskew.apiserver.registry.shared import selectors
from kubeskew.apiserver.registry.shared.amounts import round_amounts
from kubeskew.apiserver.registry.shared.podtemplate.defaults import volume_source
from kubeskew.apiserver.registry.shared.volumes import persistent_volumes
from kubeskew.apiserver.registry.shared.volumes.warnings import persistent_volume_warnings
from kubeskew.apiserver.registry.tables.cells import Cells, Subject, access_modes, quantity, volume_cells


def default_persistent_volume(obj: Object, _: DefaultingContext) -> None:
    spec = struct(obj, "spec")
    fill(struct(obj, "status"), phase="Pending")
    fill(spec, persistentVolumeReclaimPolicy="Retain")
    fill_null(spec, volumeMode="Filesystem")
    volume_source(spec)
    round_amounts(spec, "capacity")


class VolumeStatus(SpecKeptStatus):
    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        """A change of phase is dated, unless the client did that."""
        super().prepare_for_update(new, old, ctx)
        if not ctx.features.volumes.dates_phases:
            return
        after, before = new.setdefault("status", {}), old.get("status") or {}
        given, dated = after.get("lastPhaseTransitionTime"), before.get("lastPhaseTransitionTime")
        if (after.get("phase") or "") == (before.get("phase") or ""):
            if given is None and dated is not None:
                after["lastPhaseTransitionTime"] = dated
        elif given is None or given == dated:
            after["lastPhaseTransitionTime"] = timestamp(ctx.now)


class VolumeStrategy(ReturnsDeletedObject):
    status: ClassVar[type[Strategy]] = VolumeStatus
    loses_defaults = True  # the phase, at a create in releases that do not date it
    update_checks = (Check.METADATA, Check.METADATA, Check.STRUCTURE, Check.OWN_RULES, Check.CHANGE)

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        obj["status"] = {}
        if ctx.features.volumes.dates_phases:
            obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": timestamp(ctx.now)}

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return _errors(obj, ctx, any_value=ctx.features.volumes.any_affinity_values)

    def validate_as_new(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return _errors(new, ctx, any_value=_may_have_any_value(old, ctx))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        """The volume's errors come again, as ValidatePersistentVolumeUpdate begins with them."""
        rules = _spec_errors(new, ctx, any_value=_may_have_any_value(old, ctx))
        types = ctx.features.internal
        return [*rules, *persistent_volumes.update_errors(new["spec"], old["spec"], types)]

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return persistent_volume_warnings(obj, ctx.features.volumes)


def _errors(volume: Object, ctx: StrategyContext, *, any_value: bool) -> list[FieldError]:
    rules = _spec_errors(volume, ctx, any_value=any_value)
    return [*rules, *persistent_volumes.mount_option_errors(volume)]


def _spec_errors(volume: Object, ctx: StrategyContext, *, any_value: bool) -> list[FieldError]:
    alone = ctx.features.volumes.driver_required_alone
    return list(persistent_volumes.volume_errors(volume["spec"], any_value=any_value, required_alone=alone))


def _may_have_any_value(old: Object, ctx: StrategyContext) -> bool:
    affinity = (old["spec"].get("nodeAffinity") or {}).get("required") or {}
    return ctx.features.volumes.any_affinity_values or selectors.has_impossible_values(affinity)


def persistent_volume_cells(subject: Subject) -> Cells:
    claim = subject.at("spec", "claimRef")
    return {
        **volume_cells(subject),
        "Capacity": quantity(subject.at("spec", "capacity", "storage")),
        "Access Modes": access_modes(subject.items("spec", "accessModes")),
        "Reclaim Policy": subject.text("spec", "persistentVolumeReclaimPolicy"),
        "Claim": "" if claim is None else f"{claim.get('namespace', '')}/{claim.get('name', '')}",
        "Reason": subject.text("status", "reason"),
    }
