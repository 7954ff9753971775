"""StorageVersionMigration: validation, strategy and cells of tables.

That a migration may say that it runs after it has ended, since 1.36, follows from its controller of 1.36,
which leaves that to the runner.

Sources: pkg/apis/storagemigration/validation/validation.go, 1.30 to 1.36;
pkg/registry/storagemigration/storagemigration/strategy.go, 1.36.
"""

from collections.abc import Iterator
from typing import ClassVar

from kubeskew.apimachinery.errors import GroupResource
from kubeskew.apimachinery.field import FieldError, invalid, required
from kubeskew.apimachinery.go_formats import parse_int
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.generic.builtin import HandwrittenValidation, ValidatedAsNew
from kubeskew.apiserver.registry.generic.strategy import StatusStrategy, Strategy, StrategyContext
from kubeskew.apiserver.registry.shared import conditions as common
from kubeskew.apiserver.registry.shared.amounts import NOT_NEGATIVE
from kubeskew.apiserver.registry.tables.cells import Cells, Subject

_ALPHA = "storagemigration.k8s.io/v1alpha1"


def migration_errors(migration: Object) -> Iterator[FieldError]:
    """v1alpha1 names the version of the resource, too."""
    resource = (migration.get("spec") or {}).get("resource") or {}
    if not resource.get("resource"):
        yield required("spec.resource.resource", "resource is required")
    if migration["apiVersion"] == _ALPHA and not resource.get("version"):
        yield required("spec.resource.version", "version is required")


def migration_update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    after, before = ((migration.get("spec") or {}).get("resource") or {} for migration in (new, old))
    for name in ("group", "version", "resource"):
        if (after.get(name) or "") != (before.get(name) or ""):
            yield invalid(name, after.get(name) or "", IMMUTABLE)


def migration_status_errors(new: Object, old: Object, *, runs_to_its_end: bool) -> Iterator[FieldError]:
    """`runs_to_its_end`: a migration that has ended does not run."""
    after, before = (migration.get("status") or {} for migration in (new, old))
    yield from _revision(after.get("resourceVersion") or "", before.get("resourceVersion") or "")
    found, path = after.get("conditions") or [], "status.conditions"
    dated = [{"lastTransitionTime": each.get("lastUpdateTime"), **each} for each in found]
    yield from common.condition_errors(dated, path)
    now, then = common.true_conditions(after), common.true_conditions(before)
    if {"Succeeded", "Failed"} <= now:
        yield invalid(path, found, "Both success and failed conditions cannot be true at the same time")
    for kind, word in (("Succeeded", "success"), ("Failed", "failed")):
        if runs_to_its_end and {kind, "Running"} <= now:
            yield invalid(path, found, f"Running condition cannot be true when {word} condition is true")
    for kind, word in (("Succeeded", "Success"), ("Failed", "Failed")):
        if kind in then - now:
            yield invalid(path, found, f"{word} condition cannot be set to false once it is true")


def _revision(new: str, old: str) -> Iterator[FieldError]:
    path = "status.resourceVersion"
    try:
        number = parse_int(new) if new else 0
    except ValueError as error:
        yield invalid(path, new, f'failed to parse resource version "{new}": {error}')
        number = 0
    if number < 0:
        yield invalid(path, number, NOT_NEGATIVE)
    if old and new != old:
        yield invalid(path, new, "cannot be updated")


class MigrationStatus(HandwrittenValidation, StatusStrategy):
    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        bound = ctx.features.kinds.ended_migrations_not_running
        return list(migration_status_errors(new, old, runs_to_its_end=bound))


class MigrationStrategy(ValidatedAsNew):
    status: ClassVar[type[Strategy]] = MigrationStatus
    allow_unconditional_update = False

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(migration_errors(obj))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(migration_update_errors(new, old))


def storage_version_migration_cells(subject: Subject) -> Cells:
    resource = subject.at("spec", "resource") or {}
    states = [
        condition["type"]
        for condition in subject.items("status", "conditions")
        if condition.get("status") == "True" and condition.get("type") in ("Running", "Failed", "Succeeded")
    ]
    return {
        "Resource": str(GroupResource(resource.get("group", ""), resource.get("resource", ""))),
        "Status": states[-1] if states else "Unknown",
    }
