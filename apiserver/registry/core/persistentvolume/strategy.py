"""Decides how PersistentVolumes are written.

Source: pkg/registry/core/persistentvolume/strategy.go, 1.36.
"""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.builtin import Returned
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.shared.volumes import persistent_volumes
from kubeskew.apiserver.registry.shared.volumes.warnings import (
    persistent_volume_warnings,
)


class VolumeStrategy(Returned):
    metadata_checked_on_change = False
    metadata_checked_as_new = 2

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        obj["status"] = {"phase": "Pending"}

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        rules = persistent_volumes.volume_errors(obj["spec"])
        return [*rules, *persistent_volumes.mount_option_errors(obj)]

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        changes = persistent_volumes.update_errors(new["spec"], old["spec"])
        return [*self.validate(new, ctx), *persistent_volumes.volume_errors(new["spec"]), *changes]

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return persistent_volume_warnings(obj, ctx.features.volumes)
