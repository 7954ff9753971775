"""Persistent volumes and claims. Source: pkg/registry/core/persistentvolume{,claim}/strategy.go, 1.36."""

from kubeskew.apimachinery.errors import Object
from kubeskew.apimachinery.field import FieldError
from kubeskew.apiserver.registry.strategies import data_sources
from kubeskew.apiserver.registry.strategies.shared import Returned, SpecKeptStatus
from kubeskew.apiserver.registry.strategy import StrategyContext
from kubeskew.apiserver.registry.validation import persistent_volumes, volume_claims
from kubeskew.apiserver.registry.warnings.claims import persistent_volume_warnings, volume_claim_warnings

_APPLIED_SINCE = 34
_SHRINKS, _CLASSES = "RecoverVolumeExpansionFailure", "VolumeAttributesClass"


class VolumeClaimStatus(SpecKeptStatus):
    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        plural = ctx.version.minor >= _APPLIED_SINCE
        return list(volume_claims.status_errors(new, shrinks=ctx.gates.enabled(_SHRINKS), plural=plural))


class VolumeClaimStrategy(Returned):
    status = VolumeClaimStatus
    asks_as_new = 2

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        obj["status"] = {"phase": "Pending"}
        data_sources.settle(obj["spec"], {}, ctx.gates)

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare_for_update(new, old, ctx)
        data_sources.settle(new["spec"], old["spec"], ctx.gates)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(volume_claims.claim_errors(obj["spec"], "spec", classes=ctx.gates.enabled(_CLASSES)))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        changes = volume_claims.claim_update_errors(
            new,
            old,
            shrinks=ctx.gates.enabled(_SHRINKS),
            classes=ctx.gates.enabled(_CLASSES),
            applied=ctx.version.minor >= _APPLIED_SINCE,
        )
        rules = self.validate(new, ctx)
        return [*rules, *rules, *changes]

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return volume_claim_warnings(obj)


class VolumeStrategy(Returned):
    asks_of_changes = False
    asks_as_new = 2

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        obj["status"] = {"phase": "Pending"}

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        rules = persistent_volumes.volume_errors(obj["spec"])
        return [*rules, *persistent_volumes.mount_option_errors(obj)]

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        changes = persistent_volumes.update_errors(new["spec"], old["spec"])
        return [*self.validate(new, ctx), *persistent_volumes.volume_errors(new["spec"]), *changes]

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return persistent_volume_warnings(obj, ctx.version.minor)
