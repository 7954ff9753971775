"""Runs the probes of a pod's containers (pkg/kubelet/prober, 1.36)."""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine
from datetime import timedelta
from typing import Any

from kubeskew.apimachinery.client.recorder import EventRecorder
from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_sidecar
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.containers.runtime_service import RuntimeService
from kubeskew.kubelet.containers.sandbox import Container, Sandbox
from kubeskew.kubelet.features import KubeletFeatures
from kubeskew.kubelet.pods.handlers import Asker, Verdict
from kubeskew.kubelet.probe_counts import ProbeCounts

log = logging.getLogger(__name__)

_KINDS = ("startup", "readiness", "liveness")


class Prober:
    """The probes of one pod. `changed` is called when a container became ready, unready or started."""

    def __init__(
        self,
        pod_uid: str,
        runtime: RuntimeService,
        clock: Clock,
        recorder: EventRecorder,
        changed: Callable[[], None],
        features: KubeletFeatures,
        asker: Asker,
        counts: ProbeCounts,
    ) -> None:
        self._pod_uid = pod_uid
        self._asker = asker
        self._counts = counts
        self._begun_at = clock.now()
        self._features = features
        self._given_up: set[str] = set()  # names of sidecars whose startup nobody probes any more
        self._unseeded: set[str] = (
            set()
        )  # names of sidecars of which an earlier kubelet knew that they started
        self._runtime = runtime
        self._clock = clock
        self._recorder = recorder
        self._changed = changed
        self._tasks: dict[str, asyncio.Task[None]] = {}  # by container id
        self.unready: set[str] = set()  # names of containers
        self.unstarted: set[str] = set()

    @property
    def awaited(self) -> Collection[str]:
        return self.unstarted | self._unseeded

    def follow(self, pod: Object, sandbox: Sandbox) -> None:
        """Begins to probe running containers that are not probed yet."""
        now = self._clock.now()
        for spec in [*pod_spec.containers(pod), *pod_spec.init_containers(pod)]:
            container = sandbox.latest(spec["name"])
            if container is None or container.id in self._tasks or not container.running(now):
                continue
            self._find_unseeded(spec, container)
            probes = {kind for kind in _KINDS if spec.get(f"{kind}Probe") is not None}
            if not probes:
                continue
            was_ready = _was_ready(pod, container)
            self.unready.discard(spec["name"])
            self.unstarted.discard(spec["name"])
            if probes & {"readiness", "startup"} and not was_ready:
                self.unready.add(spec["name"])
            if "startup" in probes and not was_ready:
                self.unstarted.add(spec["name"])
            if spec["name"] in self._given_up:
                if self._is_kept_back(pod, spec):
                    continue
                self._given_up.discard(spec["name"])
            work = self._probe(pod, sandbox, container, spec, probes)
            self._tasks[container.id] = asyncio.create_task(work, name=f"probes of {spec['name']}")

    def _find_unseeded(self, spec: Object, container: Container) -> None:
        """Notes a sidecar that ran before this kubelet did, whose startup probe it does not run again."""
        self._unseeded.discard(spec["name"])
        probed = is_sidecar(spec) and spec.get("startupProbe") is not None
        if self._features.sidecar_probes.lost_at_restart and probed and container.started_at < self._begun_at:
            self._unseeded.add(spec["name"])

    def _is_kept_back(self, pod: Object, spec: Object) -> bool:
        """A startup probe that ended does not begin again while one before it goes on."""
        for other in [*pod_spec.containers(pod), *filter(is_sidecar, pod_spec.init_containers(pod))]:
            if other["name"] == spec["name"]:
                return False
            if other.get("startupProbe") is not None and other["name"] not in self._given_up:
                return True
        return False

    def _end_startup(self, pod: Object, sandbox: Sandbox, container: Container) -> None:
        """Gives a sidecar up that is not running when its turn comes, as if its pod decided of restarts."""
        latest = sandbox.latest(container.name)
        ended = latest is not None and not latest.running(self._clock.now())
        if self._features.sidecar_probes.skips_ended and ended and pod_spec.restart_policy(pod) == "Never":
            self._given_up.add(container.name)

    def stop(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()
        self._counts.forget(self._pod_uid)

    async def _probe(
        self, pod: Object, sandbox: Sandbox, container: Container, spec: Object, probes: Collection[str]
    ) -> None:
        name = spec["name"]

        def loop(kind: str, verdict: Callable[[bool], bool]) -> Coroutine[Any, Any, None]:
            return self._loop(pod, sandbox, container, spec, kind, verdict)

        def started(succeeds: bool) -> bool:
            if not succeeds:
                self._restart(pod, sandbox, container, "startup")
            else:
                self.unstarted.discard(name)
                if "readiness" not in probes:
                    self.unready.discard(name)
            return False

        def ready(succeeds: bool) -> bool:
            (self.unready.discard if succeeds else self.unready.add)(name)
            return True

        def alive(succeeds: bool) -> bool:
            if not succeeds:
                self._restart(pod, sandbox, container, "liveness")
            return succeeds

        if name in self.unstarted:
            await loop("startup", started)
        others = [("readiness", ready), ("liveness", alive)]
        await asyncio.gather(*(loop(kind, verdict) for kind, verdict in others if kind in probes))

    async def _loop(
        self,
        pod: Object,
        sandbox: Sandbox,
        container: Container,
        spec: Object,
        kind: str,
        verdict: Callable[[bool], bool],
    ) -> None:
        """Probes again and again; `verdict` is called when a threshold is reached, and is True to go on."""
        probe = spec[f"{kind}Probe"]
        clock, period = self._clock, float(probe.get("periodSeconds") or 10)
        begins = container.started_at + timedelta(seconds=probe.get("initialDelaySeconds") or 0)
        await clock.sleep((begins - clock.now()).total_seconds())
        last, count = True, 0
        reported: bool | None = None
        while container.running(clock.now()):
            seconds = float(probe.get("timeoutSeconds") or 1)
            try:
                result = await self._asker.probe(sandbox, container, spec, probe, seconds)
            except Exception as error:
                log.exception(
                    "%s probe of container %s of pod %s", kind, container.name, pod_spec.full_name(pod)
                )
                result = Verdict(False, str(error), errored=True)
            if not container.running(clock.now()):
                await clock.sleep(period)
                break
            if result.errored:  # it counts neither for a threshold nor in the metrics
                text = self._features.events.probe_errored
                message = text.format(kind=kind.capitalize(), error=result.output)
                self._emit_event(pod, container, "Warning", "Unhealthy", message)
                await clock.sleep(period)
                continue
            succeeds = result.succeeds
            self._counts.count(self._pod_uid, container.name, kind, "successful" if succeeds else "failed")
            count = count + 1 if succeeds == last else 1
            last = succeeds
            if not succeeds:
                message = f"{kind.capitalize()} probe failed: {result.output}"
                self._emit_event(pod, container, "Warning", "Unhealthy", message)
            elif result.warns:
                message = f"{kind.capitalize()} probe warning: {result.output}"
                self._emit_event(pod, container, "Warning", "ProbeWarning", message)
            threshold = probe.get("successThreshold") or 1 if succeeds else probe.get("failureThreshold") or 3
            if count >= threshold and reported != succeeds:
                reported = succeeds
                goes_on = verdict(succeeds)
                self._changed()
                if not goes_on:
                    return
            await clock.sleep(period)
        if kind == "startup":
            self._end_startup(pod, sandbox, container)

    def _restart(self, pod: Object, sandbox: Sandbox, container: Container, kind: str) -> None:
        text = f"Container {container.name} failed {kind} probe, will be restarted"
        self._emit_event(pod, container, "Normal", "Killing", text)
        self._runtime.stop_container(sandbox, container, pod_spec.grace_seconds(pod))

    def _emit_event(self, pod: Object, container: Container, kind: str, reason: str, text: str) -> None:
        where = pod_spec.field_path(pod, container.name)
        self._recorder.event(pod, kind, reason, text, field_path=where)


def _was_ready(pod: Object, container: Container) -> bool:
    """The pod's status has the container as ready, as another kubelet found."""
    status = pod.get("status") or {}
    listed = [*(status.get("containerStatuses") or []), *(status.get("initContainerStatuses") or [])]
    return any(
        container_status.get("containerID") == container.container_id and container_status.get("ready")
        for container_status in listed
    )
