"""Decides what to do next with a pod's containers. Pure (kuberuntime_manager.go, computePodActions)."""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_sidecar
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.containers.sandbox import Container, Sandbox, full_image_name
from kubeskew.kubelet.features import KubeletFeatures


@dataclass(slots=True)
class PodActions:
    """The steps that are due now."""

    start: list[Object] = field(default_factory=list)  # at once
    restart: list[tuple[Object, Container]] = field(default_factory=list)  # ended; after their back-off
    replace: list[Container] = field(default_factory=list)  # running with an image that is no longer wanted


def next_steps(
    pod: Object,
    sandbox: Sandbox,
    now: datetime,
    features: KubeletFeatures,
    stopped: Collection[str] = (),
    unstarted: Collection[str] = (),
) -> PodActions:
    """Returns the steps: init containers in order, sidecars running from their place on, then all regular
    ones.

    `stopped` are the ids of containers that were stopped to be started again, whatever the restart policy
    says. `unstarted` are the names of those whose startup probe has not succeeded: until a regular container
    runs, what comes after such a sidecar waits.
    """
    steps = PodActions()
    # Ephemeral containers begin whatever the others do, and are never started again.
    steps.start += [spec for spec in pod_spec.ephemeral_containers(pod) if not sandbox.latest(spec["name"])]
    regular = [sandbox.latest(spec["name"]) for spec in pod_spec.containers(pod)]
    begun = any(container is not None for container in regular)
    if any(container is not None and container.running(now) for container in regular):
        unstarted = ()
    for spec in pod_spec.init_containers(pod):
        sidecar = features.sidecars and is_sidecar(spec)
        if begun and not sidecar:
            continue
        if not _init_step(pod, spec, sandbox, now, steps, sidecar=sidecar) or spec["name"] in unstarted:
            return steps
    for spec in pod_spec.containers(pod):
        latest = sandbox.latest(spec["name"])
        if latest is None:
            steps.start.append(spec)
        elif latest.running(now):
            if latest.image != full_image_name(spec.get("image") or ""):
                steps.replace.append(latest)
        elif latest.id in stopped:
            steps.start.append(spec)
        elif should_restart(pod, spec, latest, features):
            steps.restart.append((spec, latest))
    return steps


def _init_step(
    pod: Object, spec: Object, sandbox: Sandbox, now: datetime, steps: PodActions, *, sidecar: bool
) -> bool:
    """Adds what this init container needs; returns whether the next one may begin."""
    latest = sandbox.latest(spec["name"])
    if latest is None:
        steps.start.append(spec)
        return False
    if latest.running(now):
        return sidecar
    if sidecar:
        steps.restart.append((spec, latest))
        return True
    if latest.exit_code != 0 and pod_spec.restart_policy(pod) != "Never":
        steps.restart.append((spec, latest))
    return latest.exit_code == 0


def should_restart(pod: Object, spec: Object, ended: Container, features: KubeletFeatures) -> bool:
    """Returns whether a regular container that ended runs again."""
    policy = pod_spec.restart_policy(pod)
    if features.container_restart_rules:
        for rule in spec.get("restartPolicyRules") or []:
            if rule.get("action") == "Restart" and _matches(rule.get("exitCodes") or {}, ended.exit_code):
                return True
        policy = spec.get("restartPolicy") or policy
    return policy == "Always" or (policy == "OnFailure" and ended.exit_code != 0)


def _matches(exit_codes: Object, code: int) -> bool:
    listed = code in (exit_codes.get("values") or [])
    return listed == (exit_codes.get("operator") != "NotIn")


def next_change(sandbox: Sandbox, now: datetime) -> datetime | None:
    """Returns when the next container ends by itself."""
    ends = [c.ends_at for c in sandbox.containers if c.ends_at is not None and c.ends_at > now]
    return min(ends, default=None)
