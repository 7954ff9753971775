"""Small groups: storage versions and their migration, groups of pods.

Source: k8s.io/kubernetes/pkg/registry/{apiserverinternal,storagemigration,scheduling}/*/strategy.go, 1.36.
"""

from typing import ClassVar

from kubeskew.apimachinery.errors import GroupResource, Object
from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.validation import names
from kubeskew.apiserver.registry.strategies.checked import Checked, OwnRules, WithoutMetadata
from kubeskew.apiserver.registry.strategies.shared import BuiltIn, Counted, SpecKeptStatus
from kubeskew.apiserver.registry.strategy import StatusStrategy, Strategy, StrategyContext
from kubeskew.apiserver.registry.validation import pod_groups, storage_versions


class StorageVersionStatus(WithoutMetadata, SpecKeptStatus):
    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(storage_versions.status_errors(new.get("status") or {}))


class StorageVersionStrategy(OwnRules, BuiltIn):
    """Its spec is empty: a change has nothing to look at."""

    status: ClassVar[type[Strategy]] = StorageVersionStatus
    allow_unconditional_update = False

    def name_check(self, name: str, prefix: bool) -> list[str]:
        return storage_versions.name_texts(name)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(storage_versions.status_errors(obj.get("status") or {}))

    def check_change(
        self, new: Object, old: Object, ctx: StrategyContext, metadata: list[FieldError]
    ) -> list[FieldError]:
        return []


class MigrationStatus(OwnRules, StatusStrategy):
    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(storage_versions.migration_status_errors(new, old))


class MigrationStrategy(Checked):
    """StorageVersionMigration."""

    status: ClassVar[type[Strategy]] = MigrationStatus
    allow_unconditional_update = False

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(storage_versions.migration_errors(obj.get("spec") or {}))

    def check_change(
        self, new: Object, old: Object, ctx: StrategyContext, metadata: list[FieldError]
    ) -> list[FieldError]:
        return [*self.as_new(new, ctx), *metadata, *storage_versions.migration_update_errors(new, old)]


class WorkloadStrategy(Checked, Counted):
    def name_check(self, name: str, prefix: bool) -> list[str]:
        return names.dns1123_subdomain(name, prefix)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(pod_groups.workload_errors(obj.get("spec") or {}))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(pod_groups.workload_update_errors(new, old))


class PodGroupStrategy(Checked, Counted):
    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(pod_groups.group_errors(obj.get("spec") or {}))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(pod_groups.group_update_errors(new, old))


STRATEGIES: dict[GroupResource, type[Strategy]] = {
    GroupResource("internal.apiserver.k8s.io", "storageversions"): StorageVersionStrategy,
    GroupResource("storagemigration.k8s.io", "storageversionmigrations"): MigrationStrategy,
    GroupResource("scheduling.k8s.io", "workloads"): WorkloadStrategy,
    GroupResource("scheduling.k8s.io", "podgroups"): PodGroupStrategy,
}
