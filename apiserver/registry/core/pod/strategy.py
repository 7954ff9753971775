"""Holds the strategies of pods. Source: pkg/registry/core/pod/strategy.go, 1.36."""

from typing import Any

from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.field import FieldError, forbidden, invalid
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apiserver.registry.core.pod import (
    pod_only,
    resize_validation,
    status_validation,
    update_validation,
)
from kubeskew.apiserver.registry.generic.builtin import BuiltIn
from kubeskew.apiserver.registry.generic.check_order import UPDATE, Check
from kubeskew.apiserver.registry.generic.strategy import StatusStrategy, Strategy, StrategyContext, keep
from kubeskew.apiserver.registry.shared.pod_options import PodOptions, pod_options, widened
from kubeskew.apiserver.registry.shared.podtemplate import ephemeral_containers
from kubeskew.apiserver.registry.shared.podtemplate import warnings as pod_warnings
from kubeskew.apiserver.registry.shared.podtemplate.annotations import (
    MIRROR,
    annotation_change_errors,
    annotation_errors,
    mismatch_errors,
)
from kubeskew.apiserver.registry.shared.podtemplate.containers import image_errors
from kubeskew.apiserver.registry.shared.podtemplate.validation import pod_spec_errors

_QOS_RESOURCES = ("cpu", "memory")


def qos_class(spec: Object) -> str:
    """Guaranteed, Burstable or BestEffort: by the cpu and memory of all containers."""
    pod_level = spec.get("resources")
    containers: list[Object] = (
        [{"resources": pod_level}]
        if pod_level is not None
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
    if not amounts:
        return {}
    parsed = {name: Quantity.parse(amounts[name]) for name in _QOS_RESOURCES if name in amounts}
    return {name: amount for name, amount in parsed.items() if amount.sign() > 0}


def pod_errors(pod: Object, options: PodOptions) -> list[FieldError]:
    """Returns the errors of a pod, its metadata apart (validatePodMetadataAndSpec)."""
    metadata, spec = pod["metadata"], pod["spec"]
    errors: list[FieldError] = []
    if metadata.get("annotations"):
        errors += annotation_errors(metadata["annotations"], spec, "metadata.annotations")
    errors += pod_spec_errors(spec, "spec", options, metadata)
    if not spec.get("serviceAccountName"):
        errors += pod_only.token_errors(spec)
    errors += image_errors(spec.get("containers") or [], "spec.containers")
    if spec.get("initContainers"):
        errors += image_errors(spec["initContainers"], "spec.initContainers")
    return errors


def _options(ctx: StrategyContext, new: Object, old: Object) -> PodOptions:
    return widened(pod_options(ctx.features.pods, True), new["spec"], old["spec"])


def mark_proposed(new: Object, old: Object, *, by_update: bool) -> None:
    """Says in the status that a resize was asked for (MarkPodProposedForResize, pkg/api/pod/util.go).

    Up to 1.31, `by_update`, only where a container's status has other allocated resources than are requested.
    """
    given = {
        status["name"]: status.get("allocatedResources") or {}
        for status in (new.get("status") or {}).get("containerStatuses") or []
    }
    for container, before in zip(new["spec"]["containers"], old["spec"]["containers"], strict=False):
        resources, name = container.get("resources") or {}, container["name"]
        if resources == (before.get("resources") or {}):
            continue
        requests = resources.get("requests")
        if not by_update or (requests is not None and given.get(name, requests) != requests):
            new["status"] = {**new["status"], "resize": "Proposed"}
            return


class PodStatusStrategy(StatusStrategy):
    """Labels and annotations may change through the status; owners may not."""

    kept_metadata = ("ownerReferences",)

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare_for_update(new, old, ctx)
        new["metadata"].pop("deletionTimestamp", None)
        status, before = new.setdefault("status", {}), old.get("status") or {}
        if not status.get("qosClass"):  # older kubelets drop it
            keep(status, before, "qosClass")
        pod_only.keep_observed_generations(status, before)

    def reset_fields(self, ctx: StrategyContext) -> tuple[tuple[str, ...], ...]:
        return (("spec",), ("metadata", "deletionTimestamp"), ("metadata", "ownerReferences"))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        clears = ctx.features.pods.clears_nomination
        return status_validation.pod_status_errors(new, old, _options(ctx, new, old), clears=clears)

    def update_warnings(self, new: Object, old: Object, ctx: StrategyContext) -> list[str]:
        return pod_warnings.status_warnings(new.get("status") or {})


class PodPartStrategy(Strategy):
    """A subresource that changes a part of a pod; the metadata of a status write stays."""

    def keep_rest(self, new: Object, old: Object) -> None:
        for name in sorted((new.keys() | old.keys()) - {"apiVersion", "kind", "metadata"}):
            keep(new, old, name)
        for name in StatusStrategy.kept_metadata:
            keep(new["metadata"], old["metadata"], name)

    def update_warnings(self, new: Object, old: Object, ctx: StrategyContext) -> list[str]:
        return []

    def counts_generation(self, ctx: StrategyContext) -> bool:
        return ctx.features.pods.generation


class EphemeralContainersStrategy(PodPartStrategy):
    """Lets only `spec.ephemeralContainers` change, and only by growing."""

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        added = (new.get("spec") or {}).get("ephemeralContainers")
        self.keep_rest(new, old)
        if added:
            new["spec"]["ephemeralContainers"] = added
        else:
            new["spec"].pop("ephemeralContainers", None)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        if MIRROR in (old["metadata"].get("annotations") or {}):
            return ephemeral_containers.update_errors(new, old, ctx.features.internal)
        errors = [*pod_errors(new, _options(ctx, new, old)), *annotation_change_errors(new, old)]
        return [*errors, *ephemeral_containers.update_errors(new, old, ctx.features.internal)]


class ResizeStrategy(PodPartStrategy):
    """Lets only the resources of containers change, and from 1.36 on those of the pod."""

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        wanted = new.get("spec") or {}
        fields = ("containers", "initContainers")
        asked = {field: wanted.get(field) or [] for field in fields}
        if any(len(asked[field]) != len(old["spec"].get(field) or []) for field in fields):
            return  # validation says it
        self.keep_rest(new, old)
        if ctx.features.pods.pod_resize:
            keep(new["spec"], wanted, "resources")
        for field, containers in asked.items():
            kept = new["spec"].get(field) or []
            if any(
                container.get("name") != other.get("name")
                for container, other in zip(kept, containers, strict=True)
            ):
                new["spec"][field] = containers
                continue
            for container, other in zip(kept, containers, strict=True):
                keep(container, other, "resources")
                keep(container, other, "resizePolicy")
        if ctx.features.pods.proposes_resize:
            mark_proposed(new, old, by_update=False)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        options = _options(ctx, new, old)
        qos = qos_class(new["spec"]), qos_class(old["spec"])
        return resize_validation.resize_errors(new, old, qos, ctx.features.pods, pod_errors(new, options))


class PodStrategy(BuiltIn):
    update_checks = (Check.METADATA, *UPDATE)
    returns_deleted_object = True
    is_graceful = True
    status = PodStatusStrategy
    subresources = {"ephemeralcontainers": EphemeralContainersStrategy, "resize": ResizeStrategy}
    indexed_field = "spec.nodeName"
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
        given = (obj.get("status") or {}).get("qosClass")  # upstream does not look behind it
        obj["status"] = {"phase": "Pending", "qosClass": given or qos_class(spec)}
        if spec.get("affinity") or spec.get("topologySpreadConstraints"):
            pod_only.merge_label_keys(obj, ctx.features.pods)
        if ctx.features.pods.app_armor_fields and obj["metadata"].get("annotations"):
            pod_only.read_app_armor(obj)
        if spec.get("schedulingGates"):
            obj["status"]["conditions"] = [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "SchedulingGated",
                    "message": "Scheduling is blocked due to non-empty scheduling gates",
                    "lastProbeTime": None,
                    "lastTransitionTime": timestamp(ctx.now) if ctx.features.pods.dates_gating else None,
                }
            ]

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare_for_update(new, old, ctx)
        if ctx.features.pods.resized_by_update:
            mark_proposed(new, old, by_update=True)

    def counts_generation(self, ctx: StrategyContext) -> bool:
        return ctx.features.pods.generation

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        spec, annotations = obj["spec"], obj["metadata"].get("annotations")
        errors = pod_errors(obj, pod_options(ctx.features.pods, True))
        errors += ephemeral_containers.creation_errors(spec, "spec")
        if spec.get("schedulingGates") and spec.get("nodeName"):
            text = "cannot be set until all schedulingGates have been cleared"
            errors.append(forbidden("spec.nodeName", text))
        if annotations:
            errors += mismatch_errors(annotations, spec, "spec")
        return errors

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        options = _options(ctx, new, old)
        errors = pod_errors(new, options)
        errors += annotation_change_errors(new, old)
        features = ctx.features.pods
        had = (old.get("status") or {}).get("qosClass") or qos_class(old["spec"])
        if features.update_keeps_qos and qos_class(new["spec"]) != had:
            shown = (new.get("status") or {}).get("qosClass") or ""
            errors.append(invalid("metadata", shown, "Pod QoS is immutable"))
        resizes = features.resized_by_update
        return errors + update_validation.pod_update_errors(
            new["spec"], old["spec"], options, resizes=resizes
        )

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return pod_warnings.pod_warnings(obj, ctx.features.pods)

    def update_warnings(self, new: Object, old: Object, ctx: StrategyContext) -> list[str]:
        return []

    def graceful_period(self, obj: Object, options: Object) -> int:
        """Returns the grace that the options set, else the pod's; none for a pod without a node or one that
        has ended.
        """
        spec, phase = obj["spec"], (obj.get("status") or {}).get("phase")
        if not spec.get("nodeName") or phase in {"Failed", "Succeeded"}:
            return 0
        asked = options.get("gracePeriodSeconds")
        period = spec.get("terminationGracePeriodSeconds") or 0 if asked is None else asked
        return 1 if period < 0 else int(period)

    def fields(self, obj: Object) -> dict[str, str]:
        found = super().fields(obj)
        found["spec.hostNetwork"] = "true" if (obj.get("spec") or {}).get("hostNetwork") else "false"
        found["spec.host"] = found["spec.nodeName"]
        found["status.podIPs"] = ""
        return found
