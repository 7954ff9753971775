"""Reads and sets the conditions of a StorageVersionMigration.

Source: pkg/controller/storageversionmigrator/util.go, 1.30 to 1.37.
"""

from datetime import datetime

from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.conditions import find_condition
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.storageversionmigration.features import MigrationFeatures

RUNNING, SUCCEEDED, FAILED = "Running", "Succeeded", "Failed"
IN_PROGRESS_REASON = "StorageVersionMigrationInProgress"
SUCCEEDED_REASON = "StorageVersionMigrationSucceeded"
FAILED_REASON = "StorageVersionMigrationFailed"


def is_true(migration: Object, kind: str) -> bool:
    """Decides whether the condition is true."""
    return (find_condition(migration, kind) or {}).get("status") == "True"


def is_over(migration: Object) -> bool:
    """Decides whether the migration has succeeded or failed; nobody looks at it again then."""
    return is_true(migration, SUCCEEDED) or is_true(migration, FAILED)


def with_true(
    migration: Object, kind: str, reason: str, message: str, now: datetime, features: MigrationFeatures
) -> Object:
    """Returns the migration with a condition that has become true.

    Until the migration runner does that, the end of a migration says that it does not run any more.
    """
    present = find_condition(migration, kind)
    if present is not None and (features.one_at_a_time or present["status"] == "True"):
        return migration
    conditions = [dict(condition) for condition in (migration.get("status") or {}).get("conditions") or ()]
    if kind in (SUCCEEDED, FAILED) and not features.one_at_a_time:
        for condition in conditions:
            if condition["type"] == RUNNING:
                condition["status"] = "False"
    conditions.append(_condition(kind, reason, message, now, features))
    return with_status(migration, conditions=conditions)


def with_status(migration: Object, **changed: object) -> Object:
    """Returns the migration with other fields in its status."""
    return {**migration, "status": {**(migration.get("status") or {}), **changed}}


def _condition(kind: str, reason: str, message: str, now: datetime, features: MigrationFeatures) -> Object:
    made = {"type": kind, "status": "True", "reason": reason}
    if not features.names_versions:
        return {**made, "lastTransitionTime": timestamp(now), "message": message}
    told = {"message": message} if message and features.gives_messages else {}
    return {**made, "lastUpdateTime": timestamp(now), **told}
