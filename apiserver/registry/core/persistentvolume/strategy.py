"""Decides how PersistentVolumes are written.

Source: pkg/registry/core/persistentvolume/strategy.go, 1.36.
"""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.builtin import ReturnsDeletedObject
from kubeskew.apiserver.registry.generic.check_order import Check
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.shared.volumes import persistent_volumes
from kubeskew.apiserver.registry.shared.volumes.warnings import (
    persistent_volume_warnings,
)


class VolumeStrategy(ReturnsDeletedObject):
    update_checks = (Check.METADATA, Check.METADATA, Check.STRUCTURE, Check.OWN_RULES, Check.CHANGE)

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        obj["status"] = {"phase": "Pending"}

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        rules = persistent_volumes.volume_errors(obj["spec"])
        return [*rules, *persistent_volumes.mount_option_errors(obj)]

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        """Returns the volume's errors once more, as ValidatePersistentVolumeUpdate begins with them."""
        changes = persistent_volumes.update_errors(new["spec"], old["spec"])
        return [*persistent_volumes.volume_errors(new["spec"]), *changes]

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return persistent_volume_warnings(obj, ctx.features.volumes)
