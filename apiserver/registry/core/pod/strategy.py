"""Pod: defaults, strategies and cells of tables.

Sources: pkg/apis/core/v1/defaults.go, pkg/registry/core/pod/strategy.go,
pkg/printers/internalversion/printers.go, 1.36.
"""

from dataclasses import dataclass, field
from typing import Any

from kubeskew.apimachinery.clock import parse_timestamp, timestamp
from kubeskew.apimachinery.field import FieldError, forbidden, invalid
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import TERMINAL_PHASES, is_sidecar, is_terminal
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apiserver.registry.core.pod import status_validation, validation
from kubeskew.apiserver.registry.defaulting import DefaultingContext, each, fill_null, struct
from kubeskew.apiserver.registry.generic.builtin import BuiltIn
from kubeskew.apiserver.registry.generic.strategy import (
    UPDATE,
    Check,
    StatusStrategy,
    Strategy,
    StrategyContext,
    keep,
)
from kubeskew.apiserver.registry.shared.amounts import HUGEPAGES, round_amounts
from kubeskew.apiserver.registry.shared.pod_options import PodOptions, pod_options, widened
from kubeskew.apiserver.registry.shared.podtemplate import containers
from kubeskew.apiserver.registry.shared.podtemplate import warnings as pod_warnings
from kubeskew.apiserver.registry.shared.podtemplate.containers import image_errors
from kubeskew.apiserver.registry.shared.podtemplate.defaults import (
    default_host_ports,
    pod_spec,
)
from kubeskew.apiserver.registry.shared.podtemplate.security import (
    MIRROR,
    annotation_change_errors,
    annotation_errors,
    mismatch_errors,
)
from kubeskew.apiserver.registry.shared.podtemplate.validation import pod_spec_errors
from kubeskew.apiserver.registry.tables.cells import NONE, Cells, Subject, ago, at
from kubeskew.apiserver.storage.encoding import copied

_QOS_RESOURCES = ("cpu", "memory")
_INITIALIZING = "PodInitializing"


_ROW_CONDITIONS = {
    "Succeeded": ("Succeeded", "The pod has completed successfully."),
    "Failed": ("Failed", "The pod failed."),
}


def default_pod(obj: Object, ctx: DefaultingContext) -> None:
    """Pods have these defaults, templates do not: requests follow limits, host ports follow container
    ports."""
    spec = struct(obj, "spec")
    pod_spec(spec, ctx)
    if ctx.features.pods.corrects_negative_grace and spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1  # as upstream's conversion does, both ways
    fill_null(spec, enableServiceLinks=True)
    for container in each(spec, "containers", "initContainers"):
        _requests_from_limits(container)
    if spec.get("hostNetwork"):
        default_host_ports(spec)
    if ctx.features.pods.pod_resources:
        _pod_level_requests(spec)
    if obj.get("status"):
        _addresses(obj["status"])
        _round_status(obj["status"])


def _round_status(status: Object) -> None:
    round_amounts(status, "allocatedResources")
    round_amounts(status.get("resources"), "limits", "requests")
    for container in each(status, "containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        round_amounts(container, "allocatedResources")
        round_amounts(container.get("resources"), "limits", "requests")


def _addresses(status: Object) -> None:
    """`podIP` wins where it and `podIPs` differ, as in upstream's conversion."""
    one, many = status.get("podIP"), status.get("podIPs")
    if one and (not many or many[0].get("ip") != one):
        status["podIPs"] = [{"ip": one}]
    elif many and many[0].get("ip"):
        status["podIP"] = many[0]["ip"]


def _requests_from_limits(container: Object) -> None:
    resources = container.get("resources") or {}
    limits = resources.get("limits")
    if limits:
        resources["requests"] = {**limits, **(resources.get("requests") or {})}


def _pod_level_requests(spec: Object) -> None:
    resources = spec.get("resources") or {}
    limits = resources.get("limits") or {}
    requests = resources.get("requests") or {}
    for name, limit in limits.items():
        if name in requests or not (name in _AT_POD_LEVEL or name.startswith(HUGEPAGES)):
            continue
        asked = [
            container["resources"]["requests"][name]
            for container in each(spec, "containers")
            if name in ((container.get("resources") or {}).get("requests") or {})
        ]
        requests[name] = _sum(asked) if asked else limit
    if requests:
        resources["requests"] = requests


_AT_POD_LEVEL = ("cpu", "memory")


def _sum(texts: list[str]) -> str:
    total = Quantity.parse(texts[0])
    for text in texts[1:]:
        total = total + Quantity.parse(text)
    return total.canonical()


def qos_class(spec: Object) -> str:
    """Guaranteed, Burstable or BestEffort follows from the cpu and memory of all containers."""
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
    """The rules are those of validatePodMetadataAndSpec, metadata apart."""
    metadata, spec = pod["metadata"], pod["spec"]
    errors: list[FieldError] = []
    if metadata.get("annotations"):
        errors += annotation_errors(metadata["annotations"], spec, "metadata.annotations")
    errors += pod_spec_errors(spec, "spec", options, metadata)
    if not spec.get("serviceAccountName"):
        errors += validation.token_errors(spec)
    errors += image_errors(spec.get("containers") or [], "spec.containers")
    if spec.get("initContainers"):
        errors += image_errors(spec["initContainers"], "spec.initContainers")
    return errors


def _options(ctx: StrategyContext, new: Object, old: Object) -> PodOptions:
    return widened(pod_options(ctx.features.pods, True), new["spec"], old["spec"])


def mark_proposed(new: Object, old: Object, *, by_update: bool) -> None:
    """The status says afterwards that a resize was asked for (MarkPodProposedForResize, pkg/api/pod/util.go).

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

    def drops_disabled(self, ctx: StrategyContext) -> bool:
        return ctx.features.pods.drops_disabled_status

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare_for_update(new, old, ctx)
        new["metadata"].pop("deletionTimestamp", None)
        status, before = new.setdefault("status", {}), old.get("status") or {}
        if not status.get("qosClass"):  # older kubelets drop it
            keep(status, before, "qosClass")
        validation.keep_observed_generations(status, before)

    def reset_fields(self, ctx: StrategyContext) -> tuple[tuple[str, ...], ...]:
        return (("spec",), ("metadata", "deletionTimestamp"), ("metadata", "ownerReferences"))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        clears = ctx.features.pods.clears_nomination
        return status_validation.pod_status_errors(new, old, _options(ctx, new, old), clears=clears)

    def update_warnings(self, new: Object, old: Object, ctx: StrategyContext) -> list[str]:
        return pod_warnings.status_warnings(new.get("status") or {})


class PodPartStrategy(Strategy):
    """Subresources change a part of a pod; the metadata of a status write stays."""

    def keep_rest(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        if ctx.features.pods.parts_keep_metadata:
            given = new["metadata"]
            new["metadata"] = copied(old["metadata"])
            for name in ("name", "namespace", "uid", "resourceVersion"):
                keep(new["metadata"], given, name)
        for name in sorted((new.keys() | old.keys()) - {"apiVersion", "kind", "metadata"}):
            keep(new, old, name)
        for name in StatusStrategy.kept_metadata:
            keep(new["metadata"], old["metadata"], name)

    def update_warnings(self, new: Object, old: Object, ctx: StrategyContext) -> list[str]:
        return []

    def counts_generation(self, ctx: StrategyContext) -> bool:
        return ctx.features.pods.generation


class EphemeralContainersStrategy(PodPartStrategy):
    """Only `spec.ephemeralContainers` may change, and only by growing."""

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        added = (new.get("spec") or {}).get("ephemeralContainers")
        self.keep_rest(new, old, ctx)
        if added:
            new["spec"]["ephemeralContainers"] = added
        else:
            new["spec"].pop("ephemeralContainers", None)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        if MIRROR in (old["metadata"].get("annotations") or {}):
            return containers.ephemeral_update_errors(new, old, ctx.features.internal)
        errors = [*pod_errors(new, _options(ctx, new, old)), *annotation_change_errors(new, old)]
        return [*errors, *containers.ephemeral_update_errors(new, old, ctx.features.internal)]


class ResizeStrategy(PodPartStrategy):
    """Only the resources of containers may change, and from 1.36 on those of the pod."""

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        wanted = new.get("spec") or {}
        fields = ("containers", "initContainers")
        asked = {name: wanted.get(name) or [] for name in fields}
        if any(len(asked[name]) != len(old["spec"].get(name) or []) for name in fields):
            return  # validation reports it
        self.keep_rest(new, old, ctx)
        if ctx.features.pods.pod_resize:
            keep(new["spec"], wanted, "resources")
        for name, others in asked.items():
            kept = new["spec"].get(name) or []
            if any(
                container.get("name") != other.get("name")
                for container, other in zip(kept, others, strict=True)
            ):
                new["spec"][name] = others
                continue
            for container, other in zip(kept, others, strict=True):
                keep(container, other, "resources")
                keep(container, other, "resizePolicy")
        if ctx.features.pods.proposes_resize:
            mark_proposed(new, old, by_update=False)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        options = _options(ctx, new, old)
        qos = qos_class(new["spec"]), qos_class(old["spec"])
        return validation.resize_errors(new, old, qos, ctx.features.pods, pod_errors(new, options))


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
        given = (obj.get("status") or {}).get("qosClass")  # upstream does not check it
        obj["status"] = {"phase": "Pending", "qosClass": given or qos_class(spec)}
        if spec.get("affinity") or spec.get("topologySpreadConstraints"):
            validation.merge_label_keys(obj, ctx.features.pods)
        if ctx.features.pods.app_armor_fields and obj["metadata"].get("annotations"):
            validation.read_app_armor(obj)
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
        errors += containers.ephemeral_creation_errors(spec, "spec")
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
        return errors + validation.pod_update_errors(new["spec"], old["spec"], options, resizes=resizes)

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return pod_warnings.pod_warnings(obj, ctx.features.pods)

    def update_warnings(self, new: Object, old: Object, ctx: StrategyContext) -> list[str]:
        return []

    def graceful_period(self, obj: Object, options: Object) -> int:
        """The options' grace comes before the pod's; a pod without a node or one that has ended gets none."""
        spec = obj["spec"]
        if not spec.get("nodeName") or is_terminal(obj):
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


@dataclass(slots=True)
class _Restarts:
    """Counts restarts of some containers, and holds when the last of them ended before that."""

    count: int = 0
    times: list[str] = field(default_factory=list)

    def add(self, status: Object) -> None:
        self.count += status.get("restartCount") or 0
        finished = at(status, "lastState", "terminated", "finishedAt")
        if finished:
            self.times.append(finished)

    def text(self, subject: Subject) -> str:
        if not self.count or not self.times:
            return str(self.count)
        return f"{self.count} ({ago(max(self.times, key=parse_timestamp), subject.now)} ago)"


@dataclass(slots=True)
class _View:
    reason: str
    ready: int = 0
    restarts: _Restarts = field(default_factory=_Restarts)


def pod_cells(subject: Subject) -> Cells:
    inits = subject.items("spec", "initContainers")
    restartable = {container["name"] for container in inits if is_sidecar(container)}
    if subject.unknown_init_panics:
        known = {container["name"] for container in inits}
        if any(each.get("name") not in known for each in subject.items("status", "initContainerStatuses")):
            raise RuntimeError("panic: runtime error: invalid memory address or nil pointer dereference")
    view = _View(_first_reason(subject))
    lasting = _Restarts()
    initializing = _walk_init_containers(subject, view, restartable, lasting)
    if not initializing or subject.is_true("Initialized"):
        view.restarts = lasting
        _walk_containers(subject, view)
    addresses = subject.items("status", "podIPs") or [{"ip": subject.at("status", "podIP")}]
    return {
        "Ready": f"{view.ready}/{subject.count('spec', 'containers') + len(restartable)}",
        "Status": _last_reason(subject, view.reason),
        "Restarts": view.restarts.text(subject),
        "IP": addresses[0].get("ip") or NONE,
        "Node": subject.text("spec", "nodeName", default=NONE),
        "Nominated Node": subject.text("status", "nominatedNodeName", default=NONE),
        "Readiness Gates": _gates(subject),
    }


def row_conditions(obj: Object) -> list[Object]:
    """Clients hide the rows of finished pods by this condition."""
    found = _ROW_CONDITIONS.get(at(obj, "status", "phase") or "")
    if found is None:
        return []
    return [{"type": "Completed", "status": "True", "reason": found[0], "message": found[1]}]


def _first_reason(subject: Subject) -> str:
    for condition in subject.items("status", "conditions"):
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            return "SchedulingGated"
    return subject.text("status", "reason") or subject.text("status", "phase")


def _last_reason(subject: Subject, reason: str) -> str:
    if not subject.deleted:
        return reason
    if subject.at("status", "reason") == "NodeLost":
        return "Unknown"
    return reason if subject.at("status", "phase") in TERMINAL_PHASES else "Terminating"


def _walk_init_containers(subject: Subject, view: _View, restartable: set[str], lasting: _Restarts) -> bool:
    """True means that one of them is not done yet; `lasting` are the restarts of those that keep running."""
    total = subject.count("spec", "initContainers")
    for position, status in enumerate(subject.items("status", "initContainerStatuses")):
        view.restarts.add(status)
        stays = status.get("name") in restartable
        if stays:
            lasting.add(status)
        if at(status, "state", "terminated") is not None and not _exit_code(status):
            continue
        if stays and status.get("started"):
            view.ready += bool(status.get("ready"))
            continue
        view.reason = "Init:" + (_init_reason(status) or f"{position}/{total}")
        return True
    return False


def _init_reason(status: Object) -> str:
    """An empty reason means that the container just takes its time."""
    if at(status, "state", "terminated") is not None:
        return _terminated_reason(status)
    waiting = at(status, "state", "waiting", "reason") or ""
    return "" if waiting == _INITIALIZING else str(waiting)


def _walk_containers(subject: Subject, view: _View) -> None:
    running, error = False, ""
    for status in reversed(subject.items("status", "containerStatuses")):
        view.restarts.add(status)
        waiting = at(status, "state", "waiting", "reason")
        if waiting:
            view.reason = waiting
        elif at(status, "state", "terminated") is not None:
            view.reason = _terminated_reason(status)
            error = view.reason if _exit_code(status) else error
        elif status.get("ready") and at(status, "state", "running") is not None:
            running = True
            view.ready += 1
    if view.reason == "Completed":
        view.reason = _beyond_completed(subject, running, error)


def _beyond_completed(subject: Subject, running: bool, error: str) -> str:
    if running and subject.is_true("Ready"):
        return "Running"
    return error or ("NotReady" if running else "Completed")


def _exit_code(status: Object) -> int:
    return int(at(status, "state", "terminated", "exitCode") or 0)


def _terminated_reason(status: Object) -> str:
    reason = at(status, "state", "terminated", "reason")
    if reason:
        return str(reason)
    signal = at(status, "state", "terminated", "signal")
    return f"Signal:{signal}" if signal else f"ExitCode:{_exit_code(status)}"


def _gates(subject: Subject) -> str:
    """`1/2` means that one of two readiness gates is true."""
    gates = subject.items("spec", "readinessGates")
    if not gates:
        return NONE
    return f"{sum(subject.is_true(gate.get('conditionType', '')) for gate in gates)}/{len(gates)}"
