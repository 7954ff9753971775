"""The containers of a pod: what to do next with them, their start with its hooks, and their stop.

Containers that crash are held back. A failed postStart hook ends its container; the event does not carry the
hook's output, so that no secret leaks. A hook runs at the same time as the pod's worker: its container counts
as started, and the next one starts (upstream: after the hook has ended). So a hook that sleeps has no effect.
Regular containers are stopped first, then sidecars in reverse order.

Sources: pkg/kubelet/kuberuntime: kuberuntime_manager.go (computePodActions, killPod),
kuberuntime_container.go (startContainer).
"""

import asyncio
import functools
import hashlib
import logging
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from kubeskew.apimachinery.go_formats import SECOND, duration_text
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_sidecar
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.cdi import injected
from kubeskew.kubelet.containers.images import has_unknown_programs
from kubeskew.kubelet.containers.pod_volumes import ConfigError, EncodingError
from kubeskew.kubelet.containers.program import Program, program_of
from kubeskew.kubelet.containers.sandbox import Container, Sandbox, full_image_name
from kubeskew.kubelet.containers.shell import lookup
from kubeskew.kubelet.containers.usage import demand_of
from kubeskew.kubelet.device_managers import ContainerDevices, DeviceError, InjectionError, combined
from kubeskew.kubelet.features import KubeletFeatures
from kubeskew.kubelet.pods.prober import command_of, run_in_container
from kubeskew.kubelet.pods.services import NodeServices
from kubeskew.kubelet.status.pod_status import WaitingReason

_LONGEST_SECONDS = 1e6  # upstream has no limit for hooks
log = logging.getLogger(__name__)


_RETRY_SECONDS = 10.0
START_FAILED = 128  # the exit code of a container whose program could not be started
_KINDS = {
    "spec.containers": "container",
    "spec.initContainers": "init_container",
    "spec.ephemeralContainers": "ephemeral_container",
}


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
    """Init containers start in order, sidecars run from their place on, then all regular ones start.

    `stopped` are the ids of containers that were stopped to be started again, no matter what the restart
    policy says. `unstarted` are the names of those whose startup probe has not succeeded: until a regular
    container runs, what comes after such a sidecar waits.
    """
    steps = PodActions()
    # Ephemeral containers begin independently of the others, and are never started again.
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
    """A regular container's own rules and policy come before the pod's."""
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
    """The moment when the next container ends by itself; None if no end is known."""
    ends = [c.ends_at for c in sandbox.containers if c.ends_at is not None and c.ends_at > now]
    return min(ends, default=None)


class PostStartHooks:
    """Holds the hooks of one pod that are running."""

    def __init__(self, services: NodeServices) -> None:
        self._services = services
        self._tasks: list[asyncio.Task[None]] = []

    def run(self, pod: Object, sandbox: Sandbox, container: Container, spec: Object) -> None:
        """Begins the container's hook, if its command and the container's run here."""
        argv = command_of((spec.get("lifecycle") or {}).get("postStart"))
        if not argv or not self._services.runtime.container_process(sandbox, container).setting.runs_here:
            return
        task = asyncio.create_task(
            self._run(pod, sandbox, container, argv), name=f"postStart of {container.name}"
        )
        self._tasks.append(task)
        task.add_done_callback(self._tasks.remove)

    def stop(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()

    async def _run(self, pod: Object, sandbox: Sandbox, container: Container, argv: list[str]) -> None:
        services = self._services
        code, _ = await run_in_container(
            services.runtime, services.clock, sandbox, container, argv, _LONGEST_SECONDS
        )
        if not code or not container.running(services.clock.now()):
            return
        where = pod_spec.field_path(pod, container.name)
        event = services.recorder.event
        event(pod, "Warning", "FailedPostStartHook", "PostStartHook failed", field_path=where)
        event(pod, "Normal", "Killing", "FailedPostStartHook", field_path=where)
        services.runtime.stop_container(sandbox, container, pod_spec.grace_seconds(pod))
        services.runtime.on_end(sandbox.pod_uid)


class ContainerStarter:
    def __init__(self, services: NodeServices) -> None:
        self._services = services
        self.hooks = PostStartHooks(services)
        self.next_try: datetime | None = None  # when a container that is held back may start
        self._failed: dict[
            str, tuple[datetime, WaitingReason]
        ] = {}  # when a container is tried again, and why
        self._announced: dict[str, str] = {}  # id of the attempt whose back-off event is out, by container

    async def start(
        self, pod: Object, sandbox: Sandbox, steps: PodActions
    ) -> tuple[bool, dict[str, WaitingReason]]:
        """The pair is (whether any was started, the reasons of those that are held back)."""
        self.next_try = None
        started = False
        held_back: dict[str, WaitingReason] = {}
        for spec in steps.start:
            started |= await self._start(pod, sandbox, spec, held_back)
        for spec, ended in steps.restart:
            waiting = self._back_off(pod, spec, ended)
            if waiting is not None:
                held_back[spec["name"]] = waiting
                continue
            self._services.backoff.restarted(_key(pod, spec), ended.ended_at)
            started |= await self._start(pod, sandbox, spec, held_back)
        return started, held_back

    def _back_off(self, pod: Object, spec: Object, ended: Container) -> WaitingReason | None:
        """None means that the container may run again; else the reason is CrashLoopBackOff."""
        backoff, key = self._services.backoff, _key(pod, spec)
        until = backoff.waits_until(key, ended.ended_at)
        if until is None:
            return None
        self._try_again_at(until)
        where = f"container={spec['name']} pod={pod_spec.full_name(pod)}"
        if self._announced.get(spec["name"]) != ended.id:
            self._announced[spec["name"]] = ended.id
            message = f"Back-off restarting failed container {spec['name']} in pod {pod_spec.full_name(pod)}"
            self._emit_event(pod, spec, "Warning", "BackOff", message)
        text = f"back-off {duration_text(int(backoff.seconds(key)) * SECOND)} restarting failed {where}"
        return WaitingReason("CrashLoopBackOff", text)

    async def _start(
        self, pod: Object, sandbox: Sandbox, spec: Object, held_back: dict[str, WaitingReason]
    ) -> bool:
        services, name = self._services, spec["name"]
        texts, image = services.features.events, spec.get("image") or ""
        if (known := self._still_failing(name)) is not None:
            held_back[name] = known
            return False
        kind = _KINDS[pod_spec.field_path(pod, name).partition("{")[0]]
        services.metrics.started_containers.labels(kind).inc()  # attempts, as upstream's
        self._report_image(pod, spec, image)
        try:
            devices = await self._devices(pod, spec)
            env = await self._environment(pod, sandbox, spec)
        except (DeviceError, ConfigError) as error:
            refused = isinstance(error, InjectionError | EncodingError)
            reason = "CreateContainerError" if refused else "CreateContainerConfigError"
            services.metrics.started_containers_errors.labels(kind, reason).inc()
            held_back[name] = WaitingReason(reason, str(error))
            until = services.clock.now() + timedelta(seconds=_RETRY_SECONDS)
            self._failed[name] = until, held_back[name]
            self._try_again_at(until)
            self._emit_event(pod, spec, "Warning", "Failed", f"Error: {error}")
            return False
        failure = start_failure(spec, image)
        container = services.runtime.start_container(
            sandbox,
            name,
            image,
            Program(0.0, START_FAILED, is_fixed=True) if failure else program_of(pod, spec),
            env={**devices.default_env, **env, **devices.env},
            devices=devices,
            spec=spec,
            failure=failure,
            cores=demand_of(pod, spec).cores,
        )
        self._emit_event(pod, spec, "Normal", "Created", texts.created.format(name=name))
        if failure:
            services.metrics.started_containers_errors.labels(kind, "RunContainerError").inc()
            self._emit_event(pod, spec, "Warning", "Failed", f"Error: {failure}")
            if should_restart(pod, spec, container, services.features):
                held_back[name] = WaitingReason("RunContainerError", failure)
            return True
        self._emit_event(pod, spec, "Normal", "Started", texts.started.format(name=name))
        self.hooks.run(pod, sandbox, container, spec)
        return True

    async def _devices(self, pod: Object, spec: Object) -> ContainerDevices:
        """Combines the devices of claims and of device plugins, and injects those of CDI. Raises
        DeviceError."""
        services = self._services
        claimed = services.devices.for_container(pod, spec)
        asked = combined(claimed, await services.plugins.for_container(pod, spec))
        return combined(asked, injected(services.cdi, asked.cdi_ids))

    def _still_failing(self, name: str) -> WaitingReason | None:
        """None once the next attempt is due; until then the reason of the failure."""
        failed = self._failed.get(name)
        if failed is None or self._services.clock.now() >= failed[0]:
            return None
        self._try_again_at(failed[0])
        return failed[1]

    def _report_image(self, pod: Object, spec: Object, image: str) -> None:
        """Records the image's events before every attempt: it is present, or pulled at once."""
        texts = self._services.features.events
        if spec.get("imagePullPolicy") != "Always":
            self._emit_event(pod, spec, "Normal", "Pulled", texts.pulled.format(image=image))
            return
        self._emit_event(pod, spec, "Normal", "Pulling", f'Pulling image "{image}"')
        took, size = pull_of(image)
        self._emit_event(
            pod, spec, "Normal", "Pulled", texts.fetched.format(image=image, took=took, size=size)
        )

    async def _environment(self, pod: Object, sandbox: Sandbox, spec: Object) -> dict[str, str]:
        """Raises ConfigError.

        What only a program can see is read only if one runs here.
        """
        contents, recorder = self._services.contents, self._services.recorder
        warn = functools.partial(recorder.event, pod, "Warning", "InvalidEnvironmentVariableNames")
        env = await contents.environment(pod, spec, sandbox.ip, warn)
        argv = [*(spec.get("command") or []), *(spec.get("args") or [])]
        if argv and lookup.knows(argv[0]) and lookup.may_use_files_or_variables(argv):
            env = {**await contents.service_links(pod), **env}
            self._services.runtime.set_volumes(sandbox.pod_uid, await contents.volumes(pod))
        return env

    def _try_again_at(self, moment: datetime) -> None:
        self.next_try = moment if self.next_try is None else min(self.next_try, moment)

    def _emit_event(self, pod: Object, spec: Object, kind: str, reason: str, message: str) -> None:
        where = pod_spec.field_path(pod, spec["name"])
        self._services.recorder.event(pod, kind, reason, message, field_path=where)


def start_failure(spec: Object, image: str) -> str:
    """The error of containerd for a program that is not in the image; empty if it is, or may be."""
    argv = [*(spec.get("command") or []), *(spec.get("args") or [])]
    name = argv[0] if argv else ""
    if not name or lookup.knows(name) or has_unknown_programs(image) or "$" in name:
        return ""
    why = f"stat {name}: no such file or directory" if "/" in name else "executable file not found in $PATH"
    return (
        "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
        f'runc create failed: unable to start container process: exec: "{name}": {why}: unknown'
    )


def _key(pod: Object, spec: Object) -> str:
    return f"{pod_spec.uid_of(pod)}/{spec['name']}"


def pull_of(image: str) -> tuple[str, int]:
    """(time as Go prints it, bytes) of a pull are always the same for an image."""
    digest = hashlib.sha256(image.encode()).digest()
    return f"{200 + digest[0] * 3}ms", int.from_bytes(digest[1:5]) % 100_000_000 + 2_000_000


class PodKiller:
    def __init__(self, services: NodeServices) -> None:
        self._services = services
        self._announced: set[str] = set()  # containers whose Killing event is out
        self.replaced: set[str] = set()  # containers stopped to be started again
        self._hooks: dict[str, asyncio.Task[None]] = {}  # preStop hooks that run
        self._deadline: float | None = None  # end of the grace period, monotonic

    def kill(self, pod: Object, sandbox: Sandbox) -> float:
        """Stops what has to stop now; returns the seconds until the next step, zero when nothing runs any
        more."""
        now = self._services.clock.now()
        grace = self._remaining_grace(pod)
        for wave in self._waves(pod, sandbox):
            running = [container for container in wave if container.running(now)]
            for container in running:
                self._stop(pod, sandbox, container, grace)
            alive = [container for container in running if container.running(now)]
            if alive:
                return max(_seconds_left(alive, now), 0.001)
        return 0.0

    def replace(
        self,
        pod: Object,
        sandbox: Sandbox,
        container: Container,
        why: str = "definition changed, will be restarted",
    ) -> None:
        """Stops a container that is to be started again."""
        self.replaced.add(container.id)
        if container.id not in self._announced:
            self._announced.add(container.id)
            self._emit_event(pod, container, f"Container {container.name} {why}")
            delay = _pre_stop_seconds(pod, container.name)
            grace = pod_spec.grace_seconds(pod)
            self._services.runtime.stop_container(sandbox, container, grace, delay)

    def _waves(self, pod: Object, sandbox: Sandbox) -> list[list[Container]]:
        """Groups stop one after the other: regular containers together, then each sidecar, the last one
        first."""
        order = {spec["name"]: index for index, spec in enumerate(pod_spec.init_containers(pod))}
        sidecars = {spec["name"] for spec in pod_spec.init_containers(pod) if is_sidecar(spec)}
        regular = [container for container in sandbox.containers if container.name not in sidecars]
        late = [container for container in sandbox.containers if container.name in sidecars]
        late.sort(key=lambda container: -order[container.name])
        return [regular, *([container] for container in late)]

    def _stop(self, pod: Object, sandbox: Sandbox, container: Container, grace: float) -> None:
        services = self._services
        if container.id not in self._announced:
            self._announced.add(container.id)
            message = f"Stopping container {container.name}"
            self._emit_event(pod, container, message)
            argv = self._hook(pod, sandbox, container)
            if argv:
                services.runtime.kill_container(sandbox, container, grace)
                work = self._stop_after_hook(pod, sandbox, container, argv, grace)
                self._hooks[container.id] = asyncio.create_task(work, name=f"preStop of {container.name}")
                return
            delay = _pre_stop_seconds(pod, container.name)
            services.runtime.stop_container(sandbox, container, grace, delay)
        else:
            services.runtime.kill_container(sandbox, container, grace)

    def _hook(self, pod: Object, sandbox: Sandbox, container: Container) -> list[str]:
        """A preStop hook that does not run here has no command."""
        specs = [*pod_spec.containers(pod), *pod_spec.init_containers(pod)]
        spec: Object = next((spec for spec in specs if spec["name"] == container.name), {})
        argv = command_of((spec.get("lifecycle") or {}).get("preStop"))
        return (
            argv
            if argv and self._services.runtime.container_process(sandbox, container).setting.runs_here
            else []
        )

    async def _stop_after_hook(
        self, pod: Object, sandbox: Sandbox, container: Container, argv: list[str], grace: float
    ) -> None:
        """Runs the hook, then sends SIGTERM with the rest of the grace period, two seconds at least."""
        services = self._services
        begun = services.clock.monotonic()
        code, output = await run_in_container(
            services.runtime, services.clock, sandbox, container, argv, grace
        )
        if code:
            text = f"PreStopHook failed: {output}"
            where = pod_spec.field_path(pod, container.name)
            services.recorder.event(pod, "Warning", "FailedPreStopHook", text, field_path=where)
        left = max(2.0, grace - (services.clock.monotonic() - begun))
        services.runtime.stop_container(sandbox, container, left)
        services.runtime.on_end(sandbox.pod_uid)

    def _emit_event(self, pod: Object, container: Container, message: str) -> None:
        where = pod_spec.field_path(pod, container.name)
        self._services.recorder.event(pod, "Normal", "Killing", message, field_path=where)

    def _remaining_grace(self, pod: Object) -> float:
        """All groups share one grace period, which a second DELETE can shorten."""
        now = self._services.clock.monotonic()
        ends = now + pod_spec.grace_seconds(pod)
        self._deadline = ends if self._deadline is None else min(self._deadline, ends)
        return max(0.0, self._deadline - now)


def _seconds_left(containers: list[Container], now: datetime) -> float:
    ends = [c.ends_at for c in containers if c.ends_at is not None]
    return (max(ends) - now).total_seconds() if ends else 0.0


def _pre_stop_seconds(pod: Object, name: str) -> float:
    """Only a preStop hook that is a `sleep` delays SIGTERM here."""
    specs = [*pod_spec.containers(pod), *pod_spec.init_containers(pod)]
    spec: Object = next((spec for spec in specs if spec["name"] == name), {})
    hook = ((spec.get("lifecycle") or {}).get("preStop") or {}).get("sleep") or {}
    return float(hook.get("seconds") or 0)
