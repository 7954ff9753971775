"""Decides how PersistentVolumeClaims are written.

Source: pkg/registry/core/persistentvolumeclaim/strategy.go, 1.36.
"""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.core.persistentvolumeclaim import data_sources
from kubeskew.apiserver.registry.generic.builtin import ReturnsDeletedObject, SpecKeptStatus
from kubeskew.apiserver.registry.generic.check_order import Check
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.shared.volumes import claims as volumes_claims
from kubeskew.apiserver.registry.shared.volumes.warnings import (
    volume_claim_warnings,
)


class VolumeClaimStatus(SpecKeptStatus):
    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        plural = ctx.features.volumes.several_applied
        return list(
            volumes_claims.status_errors(new, shrinks=ctx.features.volumes.claim_shrinks, plural=plural)
        )


class VolumeClaimStrategy(ReturnsDeletedObject):
    status = VolumeClaimStatus
    update_checks = (
        Check.METADATA,
        Check.METADATA,
        Check.METADATA_CHANGE,
        Check.STRUCTURE,
        Check.OWN_RULES,
        Check.OWN_RULES,
        Check.CHANGE,
    )

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        obj["status"] = {"phase": "Pending"}
        data_sources.settle(obj["spec"], {}, ctx.features.volumes)

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare_for_update(new, old, ctx)
        data_sources.settle(new["spec"], old["spec"], ctx.features.volumes)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(
            volumes_claims.claim_errors(obj["spec"], "spec", classes=ctx.features.volumes.attributes_classes)
        )

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(volumes_claims.claim_update_errors(new, old, ctx.features.volumes))

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return volume_claim_warnings(obj)
