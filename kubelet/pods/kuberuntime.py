"""The containers of a pod: what to do next with them, their start with its hooks, and their stop.

Containers that crash are held back. A failed postStart hook ends its container; the events of hooks do not
carry their output, so that no secret leaks. A postStart hook runs at the same time as the pod's worker: its
container counts as started, and the next one starts (upstream: after the hook has ended). So one that sleeps
has no effect.
Regular containers are stopped first, then sidecars in reverse order (since 1.29).

Sources: pkg/kubelet/kuberuntime: kuberuntime_manager.go (computePodActions, killPod),
kuberuntime_container.go (startContainer).
"""

import asyncio
import functools
import logging
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from kubeskew.apimachinery.go_formats import SECOND, duration_text
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_sidecar
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.cdi import injected
from kubeskew.kubelet.containers.environment import ConfigError, EncodingError
from kubeskew.kubelet.containers.runtime_service import (
    ContainerRuntimeError,
    ContainerSecurity,
    ContainerStartError,
    Image,
    ImageError,
)
from kubeskew.kubelet.containers.sandbox import Container, Sandbox
from kubeskew.kubelet.containers.usage import demand_of
from kubeskew.kubelet.device_managers import (
    CDIDevice,
    ContainerDevices,
    DeviceError,
    InjectionError,
    combined,
)
from kubeskew.kubelet.features import KubeletFeatures
from kubeskew.kubelet.pods.container_configs import container_config, hostname_of, is_changed
from kubeskew.kubelet.pods.handlers import FOREVER
from kubeskew.kubelet.pods.images import PULL_FAILED
from kubeskew.kubelet.pods.services import NodeServices
from kubeskew.kubelet.status.pod_status import WaitingReason, should_restart
from kubeskew.kubelet.volumes.pod_volumes import ContainerView
from kubeskew.kubelet.volumes.security_context import container_security

log = logging.getLogger(__name__)


_RETRY_SECONDS = 10.0
_SOON_SECONDS = 2.0  # until a pod whose first image failed is looked at again: its sandbox is news
_SHORTEST_GRACE = 2.0  # seconds that a container has after its hook
START_ERROR = "StartError"  # why a container ended whose program could not be started
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
    # Running with an image that is no longer wanted, and the event about it.
    replace: list[tuple[Container, str]] = field(default_factory=list)


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
    begun = any(container is not None and container.id not in stopped for container in regular)
    if any(container is not None and container.running(now) for container in regular):
        unstarted = ()
    for spec in pod_spec.init_containers(pod):
        sidecar = features.sidecars and is_sidecar(spec)
        if begun and not sidecar:
            continue
        if not _init_step(pod, spec, sandbox, now, steps, features, stopped) or spec["name"] in unstarted:
            return steps
    for spec in pod_spec.containers(pod):
        latest = sandbox.latest(spec["name"])
        if latest is None:
            steps.start.append(spec)
        elif latest.running(now):
            if is_changed(latest, spec):
                text = f"Container {latest.name} definition changed, will be restarted"
                steps.replace.append((latest, text))
        elif latest.id in stopped:
            steps.start.append(spec)
        elif should_restart(pod, spec, latest.exit_code, features):
            steps.restart.append((spec, latest))
    return steps


def _init_step(
    pod: Object,
    spec: Object,
    sandbox: Sandbox,
    now: datetime,
    steps: PodActions,
    features: KubeletFeatures,
    stopped: Collection[str],
) -> bool:
    """Adds what this init container needs; returns whether the next one may begin."""
    latest = sandbox.latest(spec["name"])
    sidecar = features.sidecars and is_sidecar(spec)
    if latest is None or (latest.id in stopped and not latest.running(now)):
        steps.start.append(spec)
        return False
    if latest.running(now):
        if sidecar and is_changed(latest, spec) and features.restarts_changed_sidecars:
            steps.replace.append((latest, f"Init container {latest.name} definition changed"))
        return sidecar
    if sidecar:
        steps.restart.append((spec, latest))
        return True
    if latest.exit_code != 0 and should_restart(pod, spec, latest.exit_code, features):
        steps.restart.append((spec, latest))
    return latest.exit_code == 0


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
        """Begins the container's hook, if it has one."""
        handler = (spec.get("lifecycle") or {}).get("postStart")
        if handler is None:
            return
        task = asyncio.create_task(
            self._run(pod, sandbox, container, spec, handler), name=f"postStart of {container.name}"
        )
        self._tasks.append(task)
        task.add_done_callback(self._tasks.remove)

    def stop(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()

    async def _run(
        self, pod: Object, sandbox: Sandbox, container: Container, spec: Object, handler: Object
    ) -> None:
        services = self._services
        warn = functools.partial(services.recorder.event, pod, "Warning")
        succeeds = await services.asker.hook(sandbox, container, spec, handler, FOREVER, warn)
        if succeeds or not container.running(services.clock.now()):
            return
        where = pod_spec.field_path(pod, container.name)
        event = services.recorder.event
        event(pod, "Warning", "FailedPostStartHook", "PostStartHook failed", field_path=where)
        event(pod, "Normal", "Killing", "FailedPostStartHook", field_path=where)
        services.runtime.stop_container(sandbox, container, pod_spec.grace_seconds(pod))
        services.runtime.on_change(sandbox.pod_uid)


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
        if (known := self._still_failing(name)) is not None:
            held_back[name] = known
            return False
        kind = _KINDS[pod_spec.field_path(pod, name).partition("{")[0]]
        emit = functools.partial(self._emit_event, pod, spec)
        services.metrics.started_containers.labels(kind).inc()  # attempts, as upstream's
        errors = services.metrics.started_containers_errors
        try:
            image = await services.images.ensure(pod, spec, emit)
            await self._ensure_image_volumes(pod, spec)
            devices = await self._devices(pod, spec)
            env = await self._environment(pod, sandbox, spec)
            view = ContainerView(
                hostname_of(pod, services.features),
                (sandbox.ip,) if sandbox.ip else (),
                {**devices.default_env, **env},
                devices.mounts,
            )
            files = services.volumes.files_of(pod, spec, view)
            config = container_config(
                pod,
                spec,
                env,
                devices,
                files,
                security=self._security(pod, spec, image),
                features=services.features.container,
                demand=demand_of(pod, spec),
                node_memory=services.node_memory,
                cuts=services.features.environment.cuts_characters,
            )
            container = await services.runtime.start_container(sandbox, config)
        except ImageError as error:
            errors.labels(kind, error.reason).inc()
            soon = error.reason == PULL_FAILED and name not in self._failed
            seconds = _SOON_SECONDS if soon else _RETRY_SECONDS
            self._hold_back(name, WaitingReason(error.reason, str(error)), held_back, seconds)
            emit("Warning", "Failed", f"Error: {error.reason}")
            return False
        except ContainerStartError as error:
            errors.labels(kind, "RunContainerError").inc()
            self._hold_back(name, WaitingReason("RunContainerError", str(error)), held_back)
            emit("Normal", "Created", services.features.events.created.format(name=name))
            emit("Warning", "Failed", f"Error: {error}")
            return False
        except (DeviceError, ConfigError, ContainerRuntimeError) as error:
            refused = isinstance(error, InjectionError | EncodingError | ContainerRuntimeError)
            reason = "CreateContainerError" if refused else "CreateContainerConfigError"
            errors.labels(kind, reason).inc()
            self._hold_back(name, WaitingReason(reason, str(error)), held_back)
            emit("Warning", "Failed", f"Error: {error}")
            return False
        texts = services.features.events
        emit("Normal", "Created", texts.created.format(name=name))
        if container.reason == START_ERROR:
            errors.labels(kind, "RunContainerError").inc()
            emit("Warning", "Failed", f"Error: {container.message}")
            if should_restart(pod, spec, container.exit_code, services.features):
                held_back[name] = WaitingReason("RunContainerError", container.message)
            return True
        emit("Normal", "Started", texts.started.format(name=name))
        self.hooks.run(pod, sandbox, container, spec)
        return True

    def _hold_back(
        self,
        name: str,
        reason: WaitingReason,
        held_back: dict[str, WaitingReason],
        seconds: float = _RETRY_SECONDS,
    ) -> None:
        """Has a container tried again some time later."""
        until = self._services.clock.now() + timedelta(seconds=seconds)
        held_back[name] = reason
        self._failed[name] = until, reason
        self._try_again_at(until)

    async def _ensure_image_volumes(self, pod: Object, spec: Object) -> None:
        """Pulls the images that the container mounts as volumes. Raises ImageError."""
        if not self._services.volumes.are_directories:
            return
        emit = functools.partial(self._services.recorder.event, pod)
        mounted = {mount["name"] for mount in spec.get("volumeMounts") or ()}
        for volume in pod["spec"].get("volumes") or ():
            source = volume.get("image")
            if source is not None and volume["name"] in mounted:
                wanted = {"image": source.get("reference"), "imagePullPolicy": source.get("pullPolicy")}
                await self._services.images.ensure(pod, wanted, emit)

    def _security(self, pod: Object, spec: Object, image: Image) -> ContainerSecurity:
        """Raises ConfigError; not for programs that are only acted."""
        if not self._services.runtime.runs_programs:
            return ContainerSecurity()
        groups = self._services.volumes.groups(pod)
        features = self._services.features.container
        return container_security(
            pod, spec, image.user, features, more_groups=groups, has_profiles=self._services.runtime.is_remote
        )

    async def _devices(self, pod: Object, spec: Object) -> ContainerDevices:
        """Combines the devices of claims and of device plugins, and injects those of CDI, unless the runtime
        does. Raises DeviceError."""
        services = self._services
        claimed = services.devices.for_container(pod, spec)
        asked = combined(claimed, await services.plugins.for_container(pod, spec))
        if services.runtime.is_remote:
            return replace(asked, cdi=[CDIDevice(name, {}) for name in asked.cdi_ids])
        return combined(asked, injected(services.cdi, asked.cdi_ids))

    def _still_failing(self, name: str) -> WaitingReason | None:
        """None once the next attempt is due; until then the reason of the failure."""
        failed = self._failed.get(name)
        if failed is None or self._services.clock.now() >= failed[0]:
            return None
        self._try_again_at(failed[0])
        return failed[1]

    async def _environment(self, pod: Object, sandbox: Sandbox, spec: Object) -> dict[str, str]:
        """Raises ConfigError.

        What only a program can see is read only if one runs here.
        """
        services = self._services
        warn = functools.partial(services.recorder.event, pod, "Warning", "InvalidEnvironmentVariableNames")
        env = await services.contents.environment(pod, spec, sandbox.ip, warn)
        if services.runtime.runs_programs:
            return {**await services.contents.service_links(pod), **env}
        return env

    def _try_again_at(self, moment: datetime) -> None:
        self.next_try = moment if self.next_try is None else min(self.next_try, moment)

    def _emit_event(self, pod: Object, spec: Object, kind: str, reason: str, message: str) -> None:
        where = pod_spec.field_path(pod, spec["name"])
        self._services.recorder.event(pod, kind, reason, message, field_path=where)


def _key(pod: Object, spec: Object) -> str:
    return f"{pod_spec.uid_of(pod)}/{spec['name']}"


class PodKiller:
    def __init__(self, services: NodeServices) -> None:
        self._services = services
        self._announced: dict[str, float] = {}  # containers that end, by when at the latest (monotonic)
        self.replaced: set[str] = set()  # containers stopped to be started again
        self.removed: set[str] = set()  # those that ended, or were ended, for all to be started again
        self._hooks: dict[str, asyncio.Task[None]] = {}  # preStop hooks
        self._waiting: set[str] = set()  # containers that have to wait for the end of others
        self._deadline: float | None = None  # end of the grace period, monotonic

    def kill(self, pod: Object, sandbox: Sandbox) -> float | None:
        """Stops what has to stop now; returns the seconds until the next step, zero when nothing runs any
        more, None while only the runtime knows when.

        The hooks of all containers run at once. Sidecars get their signal once those before them have ended,
        or the grace period is over (kuberuntime_termination_order.go).
        """
        clock = self._services.clock
        now, deadline = clock.now(), self._ends_by(pod)
        over = clock.monotonic() >= deadline
        its_turn = True
        moments: list[float | None] = []
        waits = False
        for wave in self._waves(pod, sandbox):
            running = [container for container in wave if container.running(now)]
            for container in running:
                message = f"Stopping container {container.name}"
                self._stop(pod, sandbox, container, deadline, message, waits=not (its_turn or over))
            alive = [container for container in running if container.running(now)]
            if alive and (its_turn or over):
                moments.append(_seconds_left(alive, now))
            waits |= bool(alive) and not (its_turn or over)
            its_turn &= not alive
        if waits:
            moments.append(deadline - clock.monotonic())
        if not moments:
            return 0.0
        known = [seconds for seconds in moments if seconds is not None]
        return max(min(known), 0.001) if known else None

    def replace(
        self,
        pod: Object,
        sandbox: Sandbox,
        container: Container,
        message: str,
    ) -> None:
        """Stops a container that is to be started again."""
        self.replaced.add(container.id)
        if container.id not in self._announced:
            deadline = self._services.clock.monotonic() + pod_spec.grace_seconds(pod)
            self._stop(pod, sandbox, container, deadline, message)

    def remove_all(self, pod: Object, sandbox: Sandbox, now: datetime) -> None:
        """Stops all containers without a grace period, to start them again; no hook runs."""
        for spec in [*pod_spec.init_containers(pod), *pod_spec.containers(pod)]:
            container = sandbox.latest(spec["name"])
            if container is None:
                continue
            self.removed.add(container.id)
            if container.running(now):
                self._stop(pod, sandbox, container, self._services.clock.monotonic(), "killing")

    def keep(self, sandbox: Sandbox) -> None:
        """Forgets the containers that the sandbox has no more."""
        ids = {container.id for container in sandbox.containers}
        self.replaced &= ids
        self.removed &= ids
        self._waiting &= ids
        self._announced = {id_: ends for id_, ends in self._announced.items() if id_ in ids}
        self._hooks = {id_: hook for id_, hook in self._hooks.items() if id_ in ids or not hook.done()}

    def stop(self) -> None:
        """Ends the hooks without a signal: another kubelet goes on."""
        for task in self._hooks.values():
            task.cancel()

    def _waves(self, pod: Object, sandbox: Sandbox) -> list[list[Container]]:
        """Groups that stop one after the other: regular containers with all others, then each sidecar, the
        last one first. Releases that do not order them have one group."""
        order = {spec["name"]: index for index, spec in enumerate(pod_spec.init_containers(pod))}
        sidecars = {spec["name"] for spec in pod_spec.init_containers(pod) if is_sidecar(spec)}
        if not self._services.features.orders_termination:
            sidecars = set()
        regular = [container for container in sandbox.containers if container.name not in sidecars]
        late = [container for container in sandbox.containers if container.name in sidecars]
        late.sort(key=lambda container: -order[container.name])
        return [regular, *([container] for container in late)]

    def _stop(
        self,
        pod: Object,
        sandbox: Sandbox,
        container: Container,
        deadline: float,
        message: str,
        *,
        waits: bool = False,
    ) -> None:
        """Begins to stop a container: its hook now, its signal after that and once it does not wait for
        others. Later only a nearer deadline changes anything."""
        if container.id not in self._announced:
            self._announced[container.id] = deadline
            self._emit_event(pod, container, "Normal", "Killing", message)
            self._waiting.add(container.id)
            self._begin_hook(pod, sandbox, container, deadline)
        nearer = deadline < self._announced[container.id]
        self._announced[container.id] = min(deadline, self._announced[container.id])
        if not waits:
            hook = self._hooks.get(container.id)
            due = container.id in self._waiting and (hook is None or hook.done())
            self._waiting.discard(container.id)
            if due or nearer:
                self._signal(sandbox, container)

    def _signal(self, sandbox: Sandbox, container: Container) -> None:
        """Every container has two seconds at least from its signal on."""
        left = self._announced[container.id] - self._services.clock.monotonic()
        self._services.runtime.stop_container(sandbox, container, max(_SHORTEST_GRACE, left))

    def _begin_hook(self, pod: Object, sandbox: Sandbox, container: Container, deadline: float) -> None:
        specs = [*pod_spec.containers(pod), *pod_spec.init_containers(pod)]
        spec: Object = next((spec for spec in specs if spec["name"] == container.name), {})
        handler = (spec.get("lifecycle") or {}).get("preStop")
        grace = deadline - self._services.clock.monotonic()
        if handler is None or grace <= 0:
            return
        work = self._run_hook(pod, sandbox, container, spec, handler, grace)
        self._hooks[container.id] = asyncio.create_task(work, name=f"preStop of {container.name}")

    async def _run_hook(
        self,
        pod: Object,
        sandbox: Sandbox,
        container: Container,
        spec: Object,
        handler: Object,
        grace: float,
    ) -> None:
        services = self._services
        warn = functools.partial(services.recorder.event, pod, "Warning")
        if not await services.asker.hook(sandbox, container, spec, handler, grace, warn):
            self._emit_event(pod, container, "Warning", "FailedPreStopHook", "PreStopHook failed")
        if container.id in self._announced and container.id not in self._waiting:
            self._signal(sandbox, container)
        services.runtime.on_change(sandbox.pod_uid)

    def _emit_event(self, pod: Object, container: Container, kind: str, reason: str, text: str) -> None:
        where = pod_spec.field_path(pod, container.name)
        self._services.recorder.event(pod, kind, reason, text, field_path=where)

    def _ends_by(self, pod: Object) -> float:
        """All groups share one grace period, which a second DELETE can shorten."""
        ends = self._services.clock.monotonic() + pod_spec.grace_seconds(pod)
        self._deadline = ends if self._deadline is None else min(self._deadline, ends)
        return self._deadline


def _seconds_left(containers: list[Container], now: datetime) -> float | None:
    """None if the end of one is not known."""
    ends = [c.ends_at for c in containers if c.ends_at is not None]
    return max((max(ends) - now).total_seconds(), 0.001) if len(ends) == len(containers) else None
