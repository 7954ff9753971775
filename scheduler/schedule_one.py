"""Takes one pod from the queue to a node: `schedule_one`, the scheduling cycle, the binding cycle.

Scheduling cycles run one after the other and, unless a search for devices takes long, do not wait between
looking at the nodes and deciding; binding cycles run concurrently. Every way out of a failed attempt undoes
all reservations and gives the pod back.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS
from kubeskew.apimachinery.clock import Clock, Entropy
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.process.runtime import log_values, structured
from kubeskew.scheduler.cache import Cache
from kubeskew.scheduler.cooperative import in_turns
from kubeskew.scheduler.features import PlacementFeatures
from kubeskew.scheduler.framework.events import Action, ClusterEvent, EventResource
from kubeskew.scheduler.framework.filters import NodeFilter
from kubeskew.scheduler.framework.interfaces import CycleState
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.framework.profile import Profile
from kubeskew.scheduler.framework.status import SUCCESS, Code, Diagnosis, Status, failed
from kubeskew.scheduler.metrics import Metrics
from kubeskew.scheduler.placement import NO_NODES, NodeFinder, NodeSampler
from kubeskew.scheduler.queue import QueuedPod, SchedulingQueue

log = logging.getLogger(__name__)

_RECORDED_OF = 10  # every tenth attempt measures the time of each plugin

_POD_FORGOTTEN = ClusterEvent(EventResource.ASSIGNED_POD, Action.DELETE)


class PodReporter(Protocol):
    """Reports to people, and in the pod's status, how an attempt ended."""

    def scheduled(self, pod: PodInfo, node: str) -> None: ...

    def skipped(self, pod: PodInfo) -> None: ...

    async def not_scheduled(
        self, pod: PodInfo, reason: str, message: str, nominated_node: str | None
    ) -> None: ...


class Scheduler:
    def __init__(
        self,
        profiles: Sequence[Profile],
        filters: Mapping[str, NodeFilter],
        queue: SchedulingQueue,
        cache: Cache,
        reporter: PodReporter,
        current: Callable[[str, str], Object | None],
        clock: Clock,
        entropy: Entropy,
        metrics: Metrics,
        *,
        double_full_stop: bool = False,
        placement: PlacementFeatures,
        attempts_end_early: bool = False,
        attempts_end_by_name: bool = False,
        error_logger: str = "",
    ) -> None:
        """`filters` are by profile; `current` returns the informer's version of a pod (namespace, name).

        `attempts_end_early`: before PreBind, for the queue; 1.32, bindingCycle.
        `attempts_end_by_name`: a failed attempt puts back what has the name now (pull request 138435).
        """
        self.profiles = {profile.name: profile for profile in profiles}
        self._queue = queue
        self._double_full_stop = double_full_stop
        self._logger = {"logger": error_logger} if error_logger else {}
        self._attempts = 0
        self._ends_early = attempts_end_early
        self._ends_by_name = attempts_end_by_name
        self._cache = cache
        self._reporter = reporter
        self._current = current
        self._clock = clock
        self._metrics = metrics
        sampler = NodeSampler()
        self.finders = {
            name: NodeFinder(
                profile,
                filters[name],
                cache,
                sampler,
                entropy,
                partial(self._observe_point, name),
                clock,
                placement,
            )
            for name, profile in self.profiles.items()
        }
        self._binding: dict[asyncio.Task[None], None] = {}

    async def run(self) -> None:
        """Schedules until cancelled; then waits for the attempt under way and for binding cycles."""
        try:
            while True:
                queued = await self._queue.pop()
                attempt = self._keep(self._attempt(queued))
                await asyncio.shield(attempt)  # else its pod would be lost between queue and node
        finally:
            await self.settle()

    def _keep(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Starts work that `settle` waits for."""
        task = asyncio.create_task(work)
        self._binding[task] = None
        task.add_done_callback(self._binding.pop)
        return task

    async def settle(self) -> None:
        """Waits until no pod is being bound."""
        while self._binding:
            await asyncio.gather(*self._binding, return_exceptions=True)

    async def schedule_one(self) -> None:
        """Waits for a pod in the queue, then for the attempt, but not for its binding."""
        await self._attempt(await self._queue.pop())

    async def _attempt(self, queued: QueuedPod) -> None:
        if self._is_over(queued.info):
            self._queue.done(queued.uid)
            return
        began = self._clock.monotonic()
        state = CycleState()
        state.recorded = self._attempts % _RECORDED_OF == 0
        self._attempts += 1
        try:
            node = await self._scheduling_cycle(state, queued, began)
        except Exception as error:  # a plugin's bug must not end the scheduler
            log.exception("scheduling %s", queued.info.key)
            await self._fail(queued, failed(error), None, began)
            return
        if node is None:
            return
        self._keep(self._binding_cycle(state, queued, node, began))
        await asyncio.sleep(0)  # let binding cycles and informers have their turn

    def _is_over(self, pod: PodInfo) -> bool:
        """Pods that were deleted meanwhile, or are bound already, are not tried."""
        current = self._current(pod.namespace, pod.name)
        if current is None or current["metadata"].get("uid") != pod.uid:
            return True
        if current["metadata"].get("deletionTimestamp"):
            self._reporter.skipped(pod)
            return True
        return self._cache.is_assumed(pod.uid)

    # -- scheduling cycle

    async def _scheduling_cycle(self, state: CycleState, queued: QueuedPod, began: float) -> str | None:
        """Chooses the node that the pod now counts as running on; None after the failure has been handled."""
        pod = queued.info
        profile = self.profiles[pod.scheduler_name]
        found = await in_turns(self._clock, partial(self.finders[profile.name].find, state, pod))
        self._metrics.algorithm_seconds.observe(self._clock.monotonic() - began)
        if isinstance(found, Status):
            await self._fail(queued, found, None, began)
            return None
        if isinstance(found, Diagnosis):
            await self._reject(state, queued, found, began)
            return None
        self._cache.assume(pod, found)
        self._queue.nominator.remove(pod.uid)
        reserving = self._clock.monotonic()
        status = await profile.run_reserves(state, pod, found)
        self._observe_point(profile.name, "Reserve", status, reserving)
        if not status.is_success:
            await self._undo(state, pod, found)
            await self._fail_with(queued, status, began)
            return None
        return found

    # -- binding cycle

    async def _binding_cycle(self, state: CycleState, queued: QueuedPod, node: str, began: float) -> None:
        with self._metrics.working.labels("binding").track_inprogress():
            await self._bind_or_undo(state, queued, node, began)

    async def _bind_or_undo(self, state: CycleState, queued: QueuedPod, node: str, began: float) -> None:
        pod = queued.info
        try:
            status = await self._bind(state, pod, node)
        except asyncio.CancelledError:
            await self._undo(state, pod, node)
            raise
        except Exception as error:
            log.exception("binding %s", pod.key)
            status = failed(error)
        if not status.is_success:
            await self._undo(state, pod, node)
            # The pod held resources for a while; pods rejected meanwhile may fit now.
            self._queue.move_all_to_active_or_backoff_queue(_POD_FORGOTTEN, pod.pod, None)
            await self._fail_with(queued, status, began)
            return
        self._queue.done(pod.uid)
        self._reporter.scheduled(pod, node)
        await self.profiles[pod.scheduler_name].run_post_binds(state, pod, node)
        self._observe_success(queued, began)

    async def _bind(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        profile = self.profiles[pod.scheduler_name]
        steps = {"Permit": profile.run_permits, "PreBind": profile.run_pre_binds, "Bind": profile.run_binds}
        for point, step in steps.items():
            began = self._clock.monotonic()
            status = await step(state, pod, node)
            self._observe_point(profile.name, point, status, began)
            if not status.is_success:
                return status
            if point == "Permit" and self._ends_early:
                self._queue.done(pod.uid)
        return SUCCESS

    async def _undo(self, state: CycleState, pod: PodInfo, node: str) -> None:
        try:
            await self.profiles[pod.scheduler_name].run_unreserves(state, pod, node)
        finally:
            self._cache.forget(pod.uid)

    # -- failures

    async def _reject(self, state: CycleState, queued: QueuedPod, diagnosis: Diagnosis, began: float) -> None:
        """Handles a pod that fits nowhere: runs PostFilter, then puts the pod aside."""
        result = None
        profile = self.profiles[queued.info.scheduler_name]
        if profile.post_filters and diagnosis.nodes:
            asked = self._clock.monotonic()
            pod = self._newest(queued) or queued.info
            result = await profile.run_post_filters(state, pod, diagnosis.rejected, self._cache.nodes())
            self._observe_point(profile.name, "PostFilter", result.status, asked)
            _log_post_filter(pod, result.status, self._logger)
            diagnosis.post_filter = result.status.message
        queued.rejected_by, queued.pending_by = diagnosis.plugins, diagnosis.pending
        message = diagnosis.message(double_full_stop=self._double_full_stop)
        status = Status(Code.UNSCHEDULABLE, (message,))
        if not diagnosis.nodes:
            status = Status(Code.UNSCHEDULABLE, (NO_NODES,))
        await self._fail(queued, status, result.nominated_node if result else None, began)

    async def _fail_with(self, queued: QueuedPod, status: Status, began: float) -> None:
        """Handles a failure of Reserve or later: one plugin is to blame, on the one node that was chosen."""
        if status.is_rejected:
            diagnosis = Diagnosis(1, {"": status})
            blamed = {status.plugin} if status.plugin else set()
            if status.code is Code.PENDING:
                queued.pending_by = blamed
            else:
                queued.rejected_by = blamed
            status = Status(status.code, (diagnosis.message(),))
        await self._fail(queued, status, None, began)

    async def _fail(self, queued: QueuedPod, status: Status, nominated: str | None, began: float) -> None:
        rejected = status.is_rejected
        self._observe("unschedulable" if rejected else "error", queued.info.scheduler_name, began)
        _log_failure(queued.info, status, self._logger)
        pod = self._newest(queued)
        if pod is None:
            self._queue.done(queued.uid)
            pod = queued.info  # upstream reports it all the same (schedule_one.go, handleSchedulingFailure)
        else:
            queued.info = pod
            await self._queue.put_back(queued, nominated)
        try:
            await self._reporter.not_scheduled(
                pod, "Unschedulable" if rejected else "SchedulerError", status.message, nominated
            )
        except (StatusError, *CONNECTION_ERRORS) as error:
            log.warning("cannot update the status of pod %s: %s", pod.key, error)

    def _newest(self, queued: QueuedPod) -> PodInfo | None:
        """None if the pod no longer waits for a node."""
        pod = queued.info
        current = self._current(pod.namespace, pod.name)
        if current is None or current["spec"].get("nodeName"):
            return None
        if current["metadata"].get("uid") != pod.uid and not self._ends_by_name:
            return None
        return pod if current is pod.pod else PodInfo(current)

    # -- numbers

    def _observe(self, result: str, profile: str, began: float) -> None:
        self._metrics.attempts.labels(result, profile).inc()
        self._metrics.attempt_seconds.labels(result, profile).observe(self._clock.monotonic() - began)

    def _observe_point(self, profile: str, point: str, status: Status, began: float) -> None:
        seconds = self._clock.monotonic() - began
        self._metrics.observe_point(point, status.code.value, profile, seconds)

    def _observe_success(self, queued: QueuedPod, began: float) -> None:
        self._observe("scheduled", queued.info.scheduler_name, began)
        self._metrics.pod_attempts.observe(queued.attempts)
        attempts = str(queued.attempts) if queued.attempts < 15 else "15+"
        waited = self._clock.monotonic() - queued.first_enqueued
        self._metrics.sli_seconds.labels(attempts=attempts).observe(waited)
        if queued.flushed and self._metrics.after_flush is not None:
            self._metrics.after_flush.inc()


def _log_post_filter(pod: PodInfo, status: Status, logger: Mapping[str, str]) -> None:
    """Upstream's schedulingCycle logs this, too."""
    message = "Status after running PostFilter plugins for pod"
    if status.code is Code.ERROR:
        log.error("%s", structured(message, **logger, pod=pod.key, status=status.message))
    else:
        log_values(log, 5, message, pod=pod.key, status=status.message)


def _log_failure(pod: PodInfo, status: Status, logger: Mapping[str, str]) -> None:
    """Texts are those of upstream's handleSchedulingFailure."""
    if not status.is_rejected:
        message = "Error scheduling pod; retrying"
        log.error("%s", structured(message, err=status.message, **logger, pod=pod.key))
    elif status.message == NO_NODES:
        log_values(
            log, 2, "Unable to schedule pod; no nodes are registered to the cluster; waiting", pod=pod.key
        )
    else:
        log_values(log, 2, "Unable to schedule pod; no fit; waiting", pod=pod.key, err=status.message)
