"""Decides how StatefulSets are written.

Source: pkg/registry/apps/statefulset/strategy.go, 1.36.
"""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.apply.managedfields.scaling import ScalePaths
from kubeskew.apiserver.registry.apps.statefulset import validation as statefulset_validation
from kubeskew.apiserver.registry.apps.statefulset.validation import SetOptions
from kubeskew.apiserver.registry.generic.builtin import SpecKeptStatus
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.shared.podtemplate.template_options import template_options
from kubeskew.apiserver.registry.shared.workloads import status as workload_status
from kubeskew.apiserver.registry.shared.workloads.strategy import WorkloadStrategy


class StatefulSetStatus(SpecKeptStatus):
    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(workload_status.stateful_set_errors(new.get("status") or {}, old.get("status") or {}))


class StatefulSetStrategy(WorkloadStrategy):
    status = StatefulSetStatus
    scale = ScalePaths()
    blank = {"spec": {"replicas": 0}}  # no pointer in upstream's internal struct

    def name_check(self, name: str, prefix: bool) -> list[str]:
        return statefulset_validation.name_errors(name, prefix)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        checked = SetOptions.of(ctx.features.workloads, created=True)
        return statefulset_validation.stateful_set_errors(obj["spec"], template_options(ctx), checked)

    def validate_as_new(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        """Leaves out the pod template of a set whose spec had errors before."""
        features, errors = ctx.features.workloads, statefulset_validation.stateful_set_errors
        options = template_options(ctx, new["spec"], old["spec"])
        checked = SetOptions.of(features, created=False)
        if features.stateful_set_templates and errors(old["spec"], options, checked):
            checked = SetOptions.of(features, created=False, pod_template=False)
        return errors(new["spec"], options, checked)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(statefulset_validation.update_errors(new["spec"], old["spec"], ctx.features.workloads))

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return self.template_warnings(obj, ctx)

    def template_warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        found = super().template_warnings(obj, ctx)
        limit = obj["spec"].get("revisionHistoryLimit")
        if limit is not None and limit < 0:
            text = "a negative value retains all historical revisions; a value >= 0 is recommended"
            found.append(f"spec.revisionHistoryLimit: {text}")
        return found
