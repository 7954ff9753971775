"""One pod's life on its node: a task that brings its containers in line with its spec, again and again.

Three states, as upstream's pod workers: *running* (start and restart containers), *terminating* (stop them,
give devices back) and *terminated* (report the end; delete the object if it was to be deleted). A pod goes
through them once, in this order. What its containers use is noted when its annotations or resources change.
"""

import asyncio
import functools
import logging
from datetime import datetime, timedelta

from kubeskew.apimachinery.clock import parse_timestamp, timestamp
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import TERMINAL_PHASES, is_terminal
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.allocation import RETRY_SECONDS as RESIZE_RETRY_SECONDS
from kubeskew.kubelet.allocation import FitCheck, Resizer
from kubeskew.kubelet.containers.environment import ConfigError
from kubeskew.kubelet.containers.runtime_service import ContainerResources, ContainerRuntimeError
from kubeskew.kubelet.containers.sandbox import Sandbox
from kubeskew.kubelet.containers.usage import demand_of, errors_of
from kubeskew.kubelet.device_managers import DeviceError
from kubeskew.kubelet.pods.container_configs import acted, sandbox_config
from kubeskew.kubelet.pods.kuberuntime import ContainerStarter, PodKiller, next_change, next_steps
from kubeskew.kubelet.pods.prober import Prober
from kubeskew.kubelet.pods.services import NodeServices
from kubeskew.kubelet.pods.sync_periods import SyncEnd, differ_semantically
from kubeskew.kubelet.pods.volume_sync import RETRY_SECONDS as VOLUME_RETRY_SECONDS
from kubeskew.kubelet.pods.volume_sync import VolumeSync
from kubeskew.kubelet.status.pod_status import (
    View,
    WaitingReason,
    pod_status,
    rejected_status,
    restart_action,
)
from kubeskew.kubelet.volumes.container_resources import container_resources
from kubeskew.kubelet.volumes.dns import pod_dns
from kubeskew.kubelet.volumes.termination_message import POD_LIMIT

log = logging.getLogger(__name__)

_RELIST_SECONDS = 1.0  # genericPlegRelistPeriod: the ends of containers are not noticed sooner
_COLLECTION_SECONDS = 60.0  # ContainerGCPeriod
_ORPHAN_GRACE = 2  # seconds, of a pod that was started but is not known (kubelet_pods.go, HandlePodCleanups)
_EVICTION_GRACE = 1  # seconds (eviction_manager.go, immediateEvictionGracePeriodSeconds)
_SANDBOX_CHANGED = "Pod sandbox changed, it will be killed and re-created."
_DEADLINE = "Pod was active on the node longer than the specified deadline"


class ResourceUpdater:
    """Hands the limits and the use of one pod's containers to the runtime where they changed, and reports
    annotations that are no amounts."""

    def __init__(self, services: NodeServices) -> None:
        self._runtime = services.runtime
        self._recorder = services.recorder
        self._node_memory = services.node_memory
        self._features = services.features.container
        self._reported: tuple[str, ...] = ()
        self._known: dict[str, tuple[ContainerResources, dict[str, str]]] = {}  # by container id

    async def follow(self, pod: Object, sandbox: Sandbox, now: datetime) -> None:
        ids = {container.id for container in sandbox.containers}
        self._known = {id_: known for id_, known in self._known.items() if id_ in ids}
        for spec in pod_spec.all_containers(pod):
            container = sandbox.latest(spec["name"])
            if container is None or not container.running(now):
                continue
            resources = container_resources(pod, spec, self._node_memory, self._features)
            wanted = resources, acted(pod, spec, demand_of(pod, spec))
            if self._known.get(container.id) == wanted:
                continue
            self._known[container.id] = wanted
            try:
                await self._runtime.update_resources(sandbox, container, *wanted)
            except ContainerRuntimeError as error:
                log.warning("container %s of pod %s: %s", container.name, pod_spec.full_name(pod), error)
        wrong = tuple(errors_of(pod))
        for text in wrong if wrong != self._reported else ():
            self._recorder.event(pod, "Warning", "InvalidUsage", text)
        self._reported = wrong


class PodWorker:
    """Drives one pod.

    `update` and `remove` bring news from the API; `run` ends when nothing is left of the pod.
    """

    def __init__(self, pod: Object, services: NodeServices) -> None:
        self.pod = pod
        self._services = services
        self._wake = asyncio.Event()
        self._gone = False  # the object is deleted
        self._rejected = False
        self._rejection: Object = {}  # reason and message, if it ran already
        self._forgotten = False  # nobody ends its deletion
        self._done = is_terminal(pod)
        self._killed = False  # terminating has begun
        self._attempt = 0  # of the next sandbox
        self._evicted = False  # its containers have less time to end
        self._settled = False  # containers stopped, devices back, the end reported
        self._finished = False  # the object's deletion is under way
        self._reason = self._message = ""
        known = (pod.get("status") or {}).get("startTime")
        self._start_time: str = known or timestamp(services.clock.now())
        self._starter = ContainerStarter(services)
        self._killer = PodKiller(services)
        known = services.allocations.of(pod) if services.features.resizes else None
        self._resizer = Resizer(known)
        self._prober = Prober(
            pod_spec.uid_of(pod),
            services.runtime,
            services.clock,
            services.recorder,
            self.wake,
            services.features,
            services.asker,
            services.probes,
        )
        self._resources = ResourceUpdater(services)
        self._volumes = VolumeSync(services.volumes, services.recorder)
        self._messages: dict[str, str] = {}  # with which containers ended, by their ids
        self.fit_check: FitCheck | None = None  # the node's answer to the pod's resources
        self._held_back: dict[str, WaitingReason] = {}
        self._next_preparation: datetime | None = None  # of claims, after one that failed
        self._next_round: datetime | None = None  # in which all containers may restart again
        services.statuses.observe(pod)

    # -- from the API

    @property
    def uid(self) -> str:
        return pod_spec.uid_of(self.pod)

    @property
    def active(self) -> bool:
        return not (self._rejected or self._done or self._settled)

    @property
    def allocated_pod(self) -> Object:
        return self._resizer.allocated(self.pod)

    @property
    def gone(self) -> bool:
        return self._gone

    def update(self, pod: Object) -> None:
        if differ_semantically(self.pod, pod):
            self._next_preparation = None
        self.pod = pod
        self._volumes.pod_changed()
        self._services.statuses.observe(pod)
        self._wake.set()

    def wake(self) -> None:
        self._wake.set()

    def remove(self) -> None:
        """Called when the object is gone from the API."""
        self._gone = True
        self._services.statuses.forget(self.uid)
        self._services.allocations.remove(self.uid)
        self._wake.set()

    def reject(self, reason: str, message: str) -> None:
        """Marks the pod as refused by the node (before `run`). One that an earlier kubelet has started is
        ended first, and keeps its phase until then."""
        self._rejected = True
        services = self._services
        self._forgotten = services.features.admission.forgets_rejected and pod_spec.is_deleted(self.pod)
        services.metrics.admission_rejections.labels(reason).inc()
        services.recorder.event(self.pod, "Warning", reason, message)
        rejected = rejected_status(self.pod, reason, message, self._start_time, services.features)
        sandbox = services.runtime.sandbox(self.uid)
        self._done = self._done or sandbox is None or not sandbox.ready
        if not self._done:
            self._killed = True
            self._rejection = {name: rejected.pop(name) for name in ("reason", "message")}
            rejected["phase"] = (self.pod.get("status") or {}).get("phase", "Pending")
        services.statuses.put(self.pod, rejected)

    # -- the loop

    async def run(self) -> None:
        """Runs until the pod's object is gone and nothing of it is left on the node."""
        try:
            while not (self._gone and self._settled):
                try:
                    delay = await self._sync()
                except Exception:
                    log.exception("cannot sync pod %s", pod_spec.full_name(self.pod))
                    delay = self._services.periods.after(SyncEnd.ERROR)
                await self._pause(delay)
        finally:
            self._prober.stop()
            self._starter.hooks.stop()
            self._killer.stop()
        await self._remove_sandbox()
        await self._services.volumes.remove_pod(self.uid)
        self._services.backoff.forget(self.uid)
        self._services.images.forget(self.uid)

    async def _remove_sandbox(self) -> None:
        """Removes what the runtime keeps of the pod, again and again until it does (kuberuntime_gc.go)."""
        while True:
            try:
                return await self._services.runtime.remove_pod_sandbox(self.uid)
            except ContainerRuntimeError as error:
                log.warning("cannot remove the sandbox of pod %s: %s", pod_spec.full_name(self.pod), error)
            await self._services.clock.sleep(_COLLECTION_SECONDS)

    async def _pause(self, seconds: float | None) -> None:
        """Waits for `seconds` (None: for ever) or news."""
        if self._gone and self._settled:
            return
        if seconds is None or seconds > 0:
            waiting = asyncio.ensure_future(self._wake.wait())
            sleeping = None if seconds is None else asyncio.ensure_future(self._services.clock.sleep(seconds))
            tasks = [waiting] if sleeping is None else [waiting, sleeping]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
        else:
            await asyncio.sleep(0)  # other pods have their turn
        self._wake.clear()

    async def _sync(self) -> float | None:
        """Takes one step; returns seconds until the next one, None if only news matters."""
        if self._settled:
            self._finish()
            return None
        if self._done or self._killed or self._gone or pod_spec.is_deleted(self.pod):
            return await self._terminate()
        return await self._keep_running()

    # -- running

    async def _keep_running(self) -> float | None:
        services = self._services
        sandbox = services.runtime.sandbox(self.uid)
        now = services.clock.now()
        if self._past_deadline(now):
            self._reason, self._message = "DeadlineExceeded", _DEADLINE
            services.recorder.event(self.pod, "Normal", self._reason, self._message)
            self._killed = True
            return 0
        if services.features.resizes:
            self._resize(sandbox, now)
        services.allocations.give(self.allocated_pod)
        if sandbox is not None:
            current = {**self.pod, "status": services.statuses.current(self.pod)}
            self._prober.follow(current, sandbox)
            await self._resources.follow(self.allocated_pod, sandbox, now)
            self._killer.keep(sandbox)
            if (wait := self._until_next_round(sandbox, now)) > 0:
                return wait
        restarts_all = sandbox is not None and self._restarts_all(sandbox, now)
        if sandbox is None or not self._is_replacing(sandbox):
            status = self._status(sandbox, now, restarts_all=restarts_all)
            if status["phase"] in TERMINAL_PHASES:
                # Reported only after everything has stopped: containers may still use the pod's devices.
                self._killed = True
                return 0
            services.statuses.put(self.pod, status)
        if sandbox is None or not sandbox.ready:
            return await self._prepare_sandbox(sandbox)
        if services.volumes.are_directories:
            if not await self._volumes.sync(self.pod, now):
                return VOLUME_RETRY_SECONDS
            if self._volumes.excess:
                return self._evict(self._volumes.excess)
        if restarts_all:
            return self._until_next(sandbox, now) if self._ends_removed(sandbox, now) else 0
        started = await self._run_containers(sandbox, now)
        return 0 if started else self._until_next(sandbox, now)

    def _resize(self, sandbox: Sandbox | None, now: datetime) -> None:
        for name in self._resizer.resize(self.pod, self.fit_check):
            container = sandbox.latest(name) if sandbox is not None else None
            if sandbox is not None and container is not None and container.running(now):
                message = f"Container {name} resize requires restart"
                self._killer.replace(self.pod, sandbox, container, message)
        pending = self._resizer.pending
        self._services.allocations.decide(self.uid, pending.reason if pending is not None else "")
        for spec in pod_spec.all_containers(self.allocated_pod):
            container = sandbox.latest(spec["name"]) if sandbox is not None else None
            if container is not None and container.running(now):
                self._services.allocations.actuate(self.pod, spec)

    def _is_replacing(self, sandbox: Sandbox) -> bool:
        """A container is being replaced, which upstream does in one step."""
        latest = (sandbox.latest(spec["name"]) for spec in pod_spec.containers(self.pod))
        return any(container is not None and container.id in self._killer.replaced for container in latest)

    def _restarts_all(self, sandbox: Sandbox, now: datetime) -> bool:
        """Stops all containers once one has ended for which its rules say so; is True until they have ended,
        and at least once.
        """
        if self._has_trigger(sandbox, now):
            self._killer.remove_all(self.pod, sandbox, now)
            self._next_round = now + timedelta(seconds=_RELIST_SECONDS)
            return True
        return self._services.features.restarts_all and self._ends_removed(sandbox, now)

    def _has_trigger(self, sandbox: Sandbox, now: datetime) -> bool:
        """A container has ended for which its rules say that all restart."""
        if not self._services.features.restarts_all:
            return False
        for spec in [*pod_spec.init_containers(self.pod), *pod_spec.containers(self.pod)]:
            latest = sandbox.latest(spec["name"])
            if latest is None or latest.running(now) or latest.id in self._killer.removed:
                continue
            if restart_action(spec, latest.exit_code) == pod_spec.RESTART_ALL:
                return True
        return False

    def _until_next_round(self, sandbox: Sandbox, now: datetime) -> float:
        """Returns the seconds until it is noticed that all containers are to restart again; 0 if it is, or
        if none has ended for which they do."""
        if self._next_round is None or not self._has_trigger(sandbox, now):
            return 0.0
        return max(0.0, (self._next_round - now).total_seconds())

    def _ends_removed(self, sandbox: Sandbox, now: datetime) -> bool:
        removed = self._killer.removed
        return any(container.id in removed and container.running(now) for container in sandbox.containers)

    def _past_deadline(self, now: datetime) -> bool:
        limit = self._deadline()
        return limit is not None and now >= limit

    def _deadline(self) -> datetime | None:
        seconds = self.pod["spec"].get("activeDeadlineSeconds")
        if seconds is None:
            return None
        return parse_timestamp(self._start_time) + timedelta(seconds=int(seconds))

    async def _prepare_sandbox(self, lost: Sandbox | None) -> float:
        """Makes a sandbox if devices and volumes are ready; returns seconds until the next step."""
        services = self._services
        if lost is not None:  # with the process that kept it
            services.recorder.event(self.pod, "Normal", "SandboxChanged", _SANDBOX_CHANGED)
        now = services.clock.now()
        if not await self._volumes.sync(self.pod, now):
            return VOLUME_RETRY_SECONDS
        if self._next_preparation is not None and now < self._next_preparation:
            return (self._next_preparation - now).total_seconds()
        try:
            await services.devices.prepare(self.pod)
        except DeviceError as error:
            message = f"Failed to prepare dynamic resources: {error}"
            if services.features.reports_failed_preparation:
                services.recorder.event(self.pod, "Warning", "FailedPrepareDynamicResources", message)
            log.warning("pod %s: %s", pod_spec.full_name(self.pod), message)
            return self._delay_preparation()
        if not (self._gone or pod_spec.is_deleted(self.pod)):
            services.metrics.started_pods.inc()
            dns, warnings = pod_dns(self.pod, services.dns)
            for warning in warnings:
                services.recorder.event(self.pod, "Warning", warning.reason, warning.message)
            if services.runtime.sandbox(self.uid) is not None:  # perhaps of an earlier kubelet
                self._attempt = max(self._attempt, 1)
            try:
                config = sandbox_config(
                    *(self.pod, services.logs, services.node_name, services.features, dns, self._attempt),
                    services.volumes.groups(self.pod),
                )
                await services.runtime.run_pod_sandbox(config)
                self._attempt += 1
            except (ConfigError, ContainerRuntimeError) as error:
                message = f"Failed to create pod sandbox: {error}"
                services.recorder.event(self.pod, "Warning", "FailedCreatePodSandBox", message)
                return services.periods.after(SyncEnd.ERROR)
        return 0

    def _delay_preparation(self) -> float:
        delay = self._services.periods.after(SyncEnd.NO_ERROR)
        self._next_preparation = self._services.clock.now() + timedelta(seconds=delay)
        return delay

    def _evict(self, message: str) -> float:
        """Ends the pod soon, as a node that is short of something."""
        self._reason, self._message = "Evicted", message
        self._services.recorder.event(self.pod, "Warning", self._reason, message)
        self._evicted = self._killed = True
        return 0

    async def _run_containers(self, sandbox: Sandbox, now: datetime) -> bool:
        """Starts what is due, and is True if the status changes."""
        steps = next_steps(
            self.pod,
            sandbox,
            now,
            self._services.features,
            self._killer.replaced | self._killer.removed,
            self._prober.awaited,
        )
        for container, message in steps.replace:
            self._killer.replace(self.pod, sandbox, container, message)
        started, held_back = await self._starter.start(self.pod, sandbox, steps)
        stopped = any(not container.running(now) for container, _ in steps.replace)
        changed = started or stopped or held_back != self._held_back
        self._held_back = held_back
        return changed

    def _until_next(self, sandbox: Sandbox, now: datetime) -> float | None:
        moments = [next_change(sandbox, now), self._starter.next_try, self._deadline()]
        if self._services.volumes.are_directories:
            moments.append(self._volumes.next)
        if self._resizer.pending is not None:
            moments.append(now + timedelta(seconds=RESIZE_RETRY_SECONDS))
        soonest = min((moment for moment in moments if moment is not None), default=None)
        return None if soonest is None else max(0.001, (soonest - now).total_seconds())

    def _status(
        self, sandbox: Sandbox | None, now: datetime, *, ended: bool = False, restarts_all: bool = False
    ) -> Object:
        if sandbox is not None:
            self._read_messages(sandbox, now)
        view = View(
            now=now,
            host_ip=self._services.host_ip,
            start_time=self._start_time,
            held_back=self._held_back if not ended else {},
            ended=ended,
            reason=self._reason if ended else "",
            message=self._message if ended else "",
            pending_resize=None if ended else self._resizer.pending,
            unready=frozenset(self._prober.unready),
            unstarted=frozenset(self._prober.unstarted),
            messages=self._messages,
            removed=frozenset(self._killer.removed),
            restarts_all=restarts_all,
        )
        pod = self.allocated_pod
        current = {**pod, "status": self._services.statuses.current(self.pod)}
        status = pod_status(current, sandbox, view, self._services.features)
        self._services.plugins.add_health(self.pod, status)
        self._services.devices.add_health(self.pod, status)
        return status

    # -- the end

    async def _terminate(self) -> float | None:
        """Stops the containers, gives the devices back, reports."""
        services = self._services
        self._killed = True
        self._prober.stop()
        self._starter.hooks.stop()
        sandbox = services.runtime.sandbox(self.uid)
        if sandbox is not None:
            remaining = self._killer.kill(self._ending_pod(), sandbox)
            if remaining is None or remaining > 0:
                return remaining
        try:
            if not self._done:  # else the devices were given back, or there were none
                await services.devices.unprepare(self.pod)
        except DeviceError as error:
            log.warning("pod %s: %s", pod_spec.full_name(self.pod), error)
            return services.periods.after(SyncEnd.ERROR)
        if sandbox is not None:
            try:
                await services.runtime.stop_pod_sandbox(sandbox)
            except ContainerRuntimeError as error:
                log.warning("pod %s: %s", pod_spec.full_name(self.pod), error)
                return services.periods.after(SyncEnd.ERROR)
            self._read_messages(sandbox, services.clock.now())
        await services.volumes.tear_down(self.uid)
        if not self._done and not self._gone:
            status = self._status(sandbox, services.clock.now(), ended=True)
            if status["phase"] == "Failed":  # which its containers may belie: they ended as they did
                status |= self._rejection
            services.statuses.put(self.pod, status)
        self._settled = True
        return 0

    def _ending_pod(self) -> Object:
        if self._rejected:
            grace = _ORPHAN_GRACE
        elif self._evicted:
            grace = min(_EVICTION_GRACE, pod_spec.grace_seconds(self.pod))
        else:
            return self.pod
        return {**self.pod, "metadata": {**self.pod["metadata"], "deletionGracePeriodSeconds": grace}}

    def _read_messages(self, sandbox: Sandbox, now: datetime) -> None:
        """Reads the message of each container that has ended, once."""
        services = self._services
        if not services.volumes.are_directories:
            return
        specs = {spec["name"]: spec for spec in pod_spec.all_containers(self.pod)}
        limit = POD_LIMIT // max(1, len(specs))
        known, self._messages = self._messages, {}
        for container in sandbox.containers:
            if container.running(now) or container.name not in specs:
                continue
            message = known.get(container.id)
            if message is None:
                message = services.volumes.message(
                    specs[container.name],
                    container.annotations,
                    container.exit_code,
                    functools.partial(services.runtime.logs, sandbox, container),
                )
            self._messages[container.id] = message.encode()[:limit].decode(errors="ignore")

    def _finish(self) -> None:
        if self._gone or self._finished or self._forgotten:
            return
        if pod_spec.is_deleted(self.pod):
            self._finished = True
            self._services.statuses.finish(self.pod)
