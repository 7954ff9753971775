"""apps: Deployment, ReplicaSet, DaemonSet, StatefulSet. Source: pkg/registry/apps/*/strategy.go, 1.36."""

from typing import ClassVar

from apimachinery.errors import GroupResource, Object
from apimachinery.field import FieldError, forbidden
from apiserver.registry.strategies.shared import Counted, LabelsKeptStatus, SpecKeptStatus
from apiserver.registry.strategy import ScalePaths, Strategy, StrategyContext
from apiserver.registry.validation import workloads


class DeploymentStrategy(Counted):
    """The selector never changes; the template may."""

    status = LabelsKeptStatus
    scale = ScalePaths()

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return workloads.deployment_errors(obj["spec"])

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return [
            *self.validate(new, ctx),
            *workloads.immutable(new["spec"].get("selector"), old["spec"].get("selector"), "spec.selector"),
        ]


class ReplicaSetStrategy(Counted):
    status = SpecKeptStatus
    scale = ScalePaths()

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return workloads.replica_set_errors(obj["spec"])

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return [
            *self.validate(new, ctx),
            *workloads.immutable(new["spec"].get("selector"), old["spec"].get("selector"), "spec.selector"),
        ]


class DaemonSetStrategy(Counted):
    """The number of the template stands in an annotation since the field for it has gone."""

    status = SpecKeptStatus

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        super().prepare_for_create(obj, ctx)
        _set_template_generation(obj, 1)

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare_for_update(new, old, ctx)
        text = (old["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION, "")
        number = int(text) if text.isdigit() else 0
        changed = new["spec"].get("template") != old["spec"].get("template")
        _set_template_generation(new, number + changed)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        spec = obj["spec"]
        return [
            *workloads.selector_errors(spec, "daemonset"),
            *workloads.matching_template_errors(spec),
            *workloads.not_negative(spec, "spec", "minReadySeconds", "revisionHistoryLimit"),
        ]

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return [
            *self.validate(new, ctx),
            *workloads.immutable(new["spec"].get("selector"), old["spec"].get("selector"), "spec.selector"),
        ]


_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


def _set_template_generation(obj: Object, number: int) -> None:
    metadata = obj["metadata"]
    metadata["annotations"] = {**(metadata.get("annotations") or {}), _TEMPLATE_GENERATION: str(number)}


class StatefulSetStrategy(Counted):
    status = SpecKeptStatus
    scale = ScalePaths()
    _updatable: ClassVar[tuple[str, ...]] = (
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    )

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        spec = obj["spec"]
        return [
            *workloads.not_negative(spec, "spec", "replicas", "minReadySeconds"),
            *workloads.selector_errors(spec, "statefulset"),
            *workloads.matching_template_errors(spec),
        ]

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        errors = self.validate(new, ctx)
        fixed = [
            {name: value for name, value in obj["spec"].items() if name not in self._updatable}
            for obj in (new, old)
        ]
        if fixed[0] != fixed[1]:
            errors.append(forbidden("spec", _STATEFUL_TEXT))
        return errors


_STATEFUL_TEXT = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)

STRATEGIES: dict[GroupResource, type[Strategy]] = {
    GroupResource("apps", "deployments"): DeploymentStrategy,
    GroupResource("apps", "replicasets"): ReplicaSetStrategy,
    GroupResource("apps", "daemonsets"): DaemonSetStrategy,
    GroupResource("apps", "statefulsets"): StatefulSetStrategy,
}
