"""Decides how StorageVersionMigrations are written.

Source: pkg/registry/storagemigration/storagemigration/strategy.go, 1.36.
"""

from typing import ClassVar

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.handwritten_validation import HandwrittenValidation, ValidatedAsNew
from kubeskew.apiserver.registry.generic.strategy import StatusStrategy, Strategy, StrategyContext
from kubeskew.apiserver.registry.storagemigration.storageversionmigration import (
    validation as storageversionmigration_validation,
)


class MigrationStatus(HandwrittenValidation, StatusStrategy):
    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        bound = ctx.features.requests.ended_migrations_run_not
        return list(
            storageversionmigration_validation.migration_status_errors(new, old, runs_to_its_end=bound)
        )


class MigrationStrategy(ValidatedAsNew):
    """StorageVersionMigration."""

    status: ClassVar[type[Strategy]] = MigrationStatus
    allow_unconditional_update = False

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(storageversionmigration_validation.migration_errors(obj))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(storageversionmigration_validation.migration_update_errors(new, old))
