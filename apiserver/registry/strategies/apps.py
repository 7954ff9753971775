"""apps: the workloads and their revisions. Source: pkg/registry/apps/*/strategy.go, 1.36."""

from typing import ClassVar

from kubeskew.apimachinery.errors import GroupResource, Object
from kubeskew.apimachinery.field import FieldError, invalid, required
from kubeskew.apimachinery.validation import names
from kubeskew.apiserver.registry.strategies.shared import BuiltIn, Counted, LabelsKeptStatus, SpecKeptStatus
from kubeskew.apiserver.registry.strategy import ScalePaths, Strategy, StrategyContext
from kubeskew.apiserver.registry.validation import selectors, stateful_sets, workload_status, workloads
from kubeskew.apiserver.registry.validation.pod_options import PodOptions, pod_options, widened
from kubeskew.apiserver.registry.warnings.pods import label_text, template_warnings

_HOST_NAMES = (
    "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS "
    "label is recommended: "
)


def template_options(
    ctx: StrategyContext, new: Object | None = None, old: Object | None = None
) -> PodOptions:
    """`new` and `old` hold the template of an update, and held it."""
    options = pod_options(ctx.version, ctx.gates, False)
    if new is None or old is None:
        return options
    after, before = ((one.get("template") or {}).get("spec") or {} for one in (new, old))
    return widened(options, after, before)


def host_name_warnings(obj: Object) -> list[str]:
    """A name that makes names of pods that no host can have."""
    texts = names.dns1123_label(obj["metadata"].get("name") or "")
    return [_HOST_NAMES + label_text(texts)] if texts else []


class DeploymentStatus(LabelsKeptStatus):
    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(workload_status.deployment_errors(new.get("status") or {}, old.get("status") or {}))


class ReplicaStatus(SpecKeptStatus):
    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(workload_status.replica_errors(new.get("status") or {}, old.get("status") or {}))


class DaemonSetStatus(SpecKeptStatus):
    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(workload_status.daemon_set_errors(new.get("status") or {}, old.get("status") or {}))


class StatefulSetStatus(SpecKeptStatus):
    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(workload_status.stateful_set_errors(new.get("status") or {}, old.get("status") or {}))


class WorkloadStrategy(Counted):
    """What all workloads have in common: warnings about the template when the spec changed."""

    spec_errors: "ClassVar[staticmethod[[Object, PodOptions], list[FieldError]]]"

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return self.spec_errors(obj["spec"], template_options(ctx))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return self.spec_errors(new["spec"], template_options(ctx, new["spec"], old["spec"]))

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return [*host_name_warnings(obj), *self.template_warnings(obj, ctx)]

    def template_warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        template = obj["spec"].get("template") or {}
        return template_warnings(template, "spec.template", ctx.version.minor)

    def update_warnings(self, new: Object, old: Object, ctx: StrategyContext) -> list[str]:
        if new["metadata"].get("generation") == old["metadata"].get("generation"):
            return []
        return self.template_warnings(new, ctx)


class SelectingStrategy(WorkloadStrategy):
    """The selector never changes; the template may."""

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        after, before = (selectors.shown(one["spec"].get("selector")) for one in (new, old))
        wrong = super().validate_update(new, old, ctx)
        return [*wrong, *workloads.immutable(after, before, "spec.selector")]


class RecheckedStrategy(SelectingStrategy):
    """A change is checked as a new object, too: what is wrong with the spec is told twice."""

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        as_new = self.spec_errors(new["spec"], template_options(ctx, new["spec"], old["spec"]))
        return [*as_new, *super().validate_update(new, old, ctx)]


class DeploymentStrategy(SelectingStrategy):
    """Annotations count as the spec does: they are copied to replica sets."""

    status = DeploymentStatus
    spec_errors = staticmethod(workloads.deployment_errors)
    scale = ScalePaths()

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare_for_update(new, old, ctx)
        if (new["metadata"].get("annotations") or {}) != (old["metadata"].get("annotations") or {}):
            new["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1


class ReplicaSetStrategy(RecheckedStrategy):
    status = ReplicaStatus
    asks_as_new = 1
    spec_errors = staticmethod(workloads.replica_set_errors)
    scale = ScalePaths()


class DaemonSetStrategy(RecheckedStrategy):
    """The number of the template stands in an annotation since the field for it has gone."""

    status = DaemonSetStatus
    asks_as_new = 1
    spec_errors = staticmethod(workloads.daemon_set_errors)

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        super().prepare_for_create(obj, ctx)
        _set_template_generation(obj, 1)

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare_for_update(new, old, ctx)
        text = (old["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION, "")
        number = int(text) if text.isdigit() else 0
        changed = new["spec"].get("template") != old["spec"].get("template")
        _set_template_generation(new, number + changed)

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return self.template_warnings(obj, ctx)


_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


def _set_template_generation(obj: Object, number: int) -> None:
    metadata = obj["metadata"]
    metadata["annotations"] = {**(metadata.get("annotations") or {}), _TEMPLATE_GENERATION: str(number)}


class StatefulSetStrategy(WorkloadStrategy):
    status = StatefulSetStatus
    spec_errors = staticmethod(stateful_sets.stateful_set_errors)
    scale = ScalePaths()

    def name_check(self, name: str, prefix: bool) -> list[str]:
        return stateful_sets.name_errors(name, prefix)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        changes = stateful_sets.update_errors(new["spec"], old["spec"], ctx.version.minor)
        return [*super().validate_update(new, old, ctx), *changes]

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return self.template_warnings(obj, ctx)

    def template_warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        found = super().template_warnings(obj, ctx)
        limit = obj["spec"].get("revisionHistoryLimit")
        if limit is not None and limit < 0:
            text = "a negative value retains all historical revisions; a value >= 0 is recommended"
            found.append(f"spec.revisionHistoryLimit: {text}")
        return found


class ControllerRevisionStrategy(BuiltIn):
    """What was once the template of a set; never changes."""

    asks_as_new = 1

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        errors = [] if obj.get("data") is not None else [required("data", "data is mandatory")]
        errors += workloads.not_negative(obj, "", "revision")
        return errors

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        errors = self.validate(new, ctx)
        if new.get("data") != old.get("data"):
            errors.append(invalid("data", new.get("data"), "field is immutable"))
        return errors


STRATEGIES: dict[GroupResource, type[Strategy]] = {
    GroupResource("apps", "deployments"): DeploymentStrategy,
    GroupResource("apps", "replicasets"): ReplicaSetStrategy,
    GroupResource("apps", "daemonsets"): DaemonSetStrategy,
    GroupResource("apps", "statefulsets"): StatefulSetStrategy,
    GroupResource("apps", "controllerrevisions"): ControllerRevisionStrategy,
}
