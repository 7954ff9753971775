"""Pods. Source: pkg/registry/core/pod/strategy.go, 1.36."""

from collections.abc import Mapping
from typing import Any

from apimachinery.errors import GroupResource, Object
from apimachinery.field import FieldError
from apimachinery.quantity import Quantity
from apiserver.registry.strategies.shared import BuiltIn, Returned
from apiserver.registry.strategy import StatusStrategy, Strategy, StrategyContext, keep
from apiserver.registry.validation import ephemeral_containers, pod_resize, pod_status, pod_update
from apiserver.registry.validation.pod_spec import pod_spec_errors, template_errors

_GENERATION_SINCE = 33
_RELAXED_ENV_SINCE = 32
_SHRINKING_SINCE = 34
_QOS_RESOURCES = ("cpu", "memory")


def qos_class(spec: Object) -> str:
    """Guaranteed, Burstable or BestEffort: by the cpu and memory of all containers."""
    pod_level = spec.get("resources")
    containers: list[Object] = (
        [{"resources": pod_level}]
        if pod_level
        else [
            *(spec.get("containers") or []),
            *(spec.get("initContainers") or []),
        ]
    )
    asked = [_positive(container, "requests") for container in containers]
    limited = [_positive(container, "limits") for container in containers]
    if not any(asked) and not any(limited):
        return "BestEffort"
    same = all(
        set(limits) == set(_QOS_RESOURCES)
        and all(requests.get(name, limits[name]) == limits[name] for name in limits)
        for requests, limits in zip(asked, limited, strict=True)
    )
    return "Guaranteed" if same else "Burstable"


def _positive(container: Object, field: str) -> dict[str, Any]:
    amounts = (container.get("resources") or {}).get(field) or {}
    parsed = {name: Quantity.parse(amounts[name]) for name in _QOS_RESOURCES if name in amounts}
    return {name: amount for name, amount in parsed.items() if amount > Quantity.parse("0")}


def relaxed_env(ctx: StrategyContext) -> bool:
    return ctx.version.minor >= _RELAXED_ENV_SINCE or ctx.gates.enabled(
        "RelaxedEnvironmentVariableValidation"
    )


class PodStatusStrategy(StatusStrategy):
    """Labels and annotations may change through the status; owners may not."""

    kept_metadata = ("ownerReferences",)

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare_for_update(new, old, ctx)
        status = new.setdefault("status", {})
        keep(status, old.get("status") or {}, "qosClass")

    def reset_fields(self, ctx: StrategyContext) -> tuple[tuple[str, ...], ...]:
        return (("spec",), ("metadata", "deletionTimestamp"), ("metadata", "ownerReferences"))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return pod_status.pod_status_errors(new)


class EphemeralContainersStrategy(Strategy):
    """Only `spec.ephemeralContainers` changes, and only by growing."""

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        added = (new.get("spec") or {}).get("ephemeralContainers")
        for name in (new.keys() | old.keys()) - {"apiVersion", "kind", "metadata"}:
            keep(new, old, name)
        if added:
            new["spec"]["ephemeralContainers"] = added
        else:
            new["spec"].pop("ephemeralContainers", None)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        errors = pod_spec_errors(new["spec"], "spec", relaxed_env=relaxed_env(ctx))
        return [*errors, *ephemeral_containers.update_errors(new, old)]

    def counts_generation(self, ctx: StrategyContext) -> bool:
        return ctx.version.minor >= _GENERATION_SINCE


class ResizeStrategy(Strategy):
    """Only the resources of containers change."""

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        wanted = {
            field: {one.get("name"): one for one in (new.get("spec") or {}).get(field) or []}
            for field in ("containers", "initContainers")
        }
        for name in (new.keys() | old.keys()) - {"apiVersion", "kind", "metadata"}:
            keep(new, old, name)
        for field, containers in wanted.items():
            for container in new["spec"].get(field) or []:
                asked = containers.get(container["name"])
                if asked is not None:
                    keep(container, asked, "resources")
                    keep(container, asked, "resizePolicy")

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        errors = pod_spec_errors(new["spec"], "spec", relaxed_env=relaxed_env(ctx))
        qos = qos_class(new["spec"]), qos_class(old["spec"])
        shrinks = ctx.version.minor >= _SHRINKING_SINCE
        return [*errors, *pod_resize.resize_errors(new, old, qos, shrinks_memory=shrinks)]

    def counts_generation(self, ctx: StrategyContext) -> bool:
        return ctx.version.minor >= _GENERATION_SINCE


class PodStrategy(BuiltIn):
    returns_deleted_object = True
    is_graceful = True
    status = PodStatusStrategy
    subresources = {"ephemeralcontainers": EphemeralContainersStrategy, "resize": ResizeStrategy}
    field_labels = (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
        "spec.host",
    )

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        spec = obj["spec"]
        obj["status"] = {"phase": "Pending", "qosClass": qos_class(spec)}
        if spec.get("schedulingGates"):
            obj["status"]["conditions"] = [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "SchedulingGated",
                    "message": "Scheduling is blocked due to non-empty scheduling gates",
                    "lastProbeTime": None,
                    "lastTransitionTime": None,
                }
            ]

    def counts_generation(self, ctx: StrategyContext) -> bool:
        return ctx.version.minor >= _GENERATION_SINCE

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        errors = pod_spec_errors(obj["spec"], "spec", relaxed_env=relaxed_env(ctx))
        return [*errors, *ephemeral_containers.creation_errors(obj["spec"], "spec")]

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        errors = pod_spec_errors(new["spec"], "spec", relaxed_env=relaxed_env(ctx))
        return [*errors, *pod_update.pod_update_errors(new["spec"], old["spec"])]

    def graceful_period(self, obj: Object, options: Object) -> int:
        """As asked, else as the pod says; none for a pod without a node or one that has ended."""
        spec, phase = obj["spec"], (obj.get("status") or {}).get("phase")
        if not spec.get("nodeName") or phase in {"Failed", "Succeeded"}:
            return 0
        asked = options.get("gracePeriodSeconds")
        period = spec.get("terminationGracePeriodSeconds") or 0 if asked is None else asked
        return 1 if period < 0 else int(period)

    def fields(self, obj: Object) -> Mapping[str, str]:
        found = dict(super().fields(obj))
        found["spec.hostNetwork"] = "true" if (obj.get("spec") or {}).get("hostNetwork") else "false"
        found["spec.host"] = found["spec.nodeName"]
        found["status.podIPs"] = ""
        return found


class PodTemplateStrategy(Returned):
    def counts_generation(self, ctx: StrategyContext) -> bool:
        return True

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return template_errors(obj.get("template") or {}, "template")


STRATEGIES: dict[GroupResource, type[Strategy]] = {
    GroupResource("", "pods"): PodStrategy,
    GroupResource("", "podtemplates"): PodTemplateStrategy,
}
