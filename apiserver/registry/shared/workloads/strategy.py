"""Decides what the kinds that hold a pod template have in common when they are written."""

from typing import ClassVar

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.builtin import SpecKeptStatus, WithGeneration
from kubeskew.apiserver.registry.generic.check_order import Check, Checks
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.shared import selectors
from kubeskew.apiserver.registry.shared.pod_options import PodOptions
from kubeskew.apiserver.registry.shared.podtemplate.host_names import host_name_warnings
from kubeskew.apiserver.registry.shared.podtemplate.template_options import template_options
from kubeskew.apiserver.registry.shared.podtemplate.warnings import template_warnings
from kubeskew.apiserver.registry.shared.workloads import status as workload_status
from kubeskew.apiserver.registry.shared.workloads import validation as workload_validation


class ReplicaStatus(SpecKeptStatus):
    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(workload_status.replica_errors(new.get("status") or {}, old.get("status") or {}))


# What upstream checks as new, and then its spec again: some workloads of older releases.
CHECKED_TWICE = (
    Check.METADATA,
    Check.METADATA_CHANGE,
    Check.STRUCTURE,
    Check.OWN_RULES,
    Check.OWN_RULES,
    Check.CHANGE,
)


class WorkloadStrategy(WithGeneration):
    """Holds the strategy that all workloads share: warnings about the template when the spec changed."""

    update_checks: ClassVar[Checks] = (
        Check.METADATA_CHANGE,
        Check.STRUCTURE,
        Check.OWN_RULES,
        Check.CHANGE,
    )
    spec_errors: "ClassVar[staticmethod[[Object, PodOptions], list[FieldError]]]"

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return self.spec_errors(obj["spec"], template_options(ctx))

    def validate_as_new(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return self.spec_errors(new["spec"], template_options(ctx, new["spec"], old["spec"]))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        """Returns the errors of the change alone: `update_checks` names the rules of the spec."""
        return []

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return [*host_name_warnings(obj), *self.template_warnings(obj, ctx)]

    def template_warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        template = obj["spec"].get("template") or {}
        return template_warnings(template, "spec.template", ctx.features.pods)

    def update_warnings(self, new: Object, old: Object, ctx: StrategyContext) -> list[str]:
        if new["metadata"].get("generation") == old["metadata"].get("generation"):
            return []
        return self.template_warnings(new, ctx)


class SelectingStrategy(WorkloadStrategy):
    """The selector never changes; the template may."""

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        after, before = (selectors.shown(workload["spec"].get("selector")) for workload in (new, old))
        return list(workload_validation.immutable(after, before, "spec.selector"))
