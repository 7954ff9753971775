"""Stops a pod's containers: regular ones first, then its sidecars in reverse order (kuberuntime, killPod)."""

import asyncio
from datetime import datetime

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_sidecar
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.containers.sandbox import Container, Sandbox
from kubeskew.kubelet.pods.probing import command_of, run_in_container
from kubeskew.kubelet.pods.services import NodeServices


class PodKiller:
    """Stops one pod's containers."""

    def __init__(self, services: NodeServices) -> None:
        self._services = services
        self._told: set[str] = set()  # containers whose Killing event is out
        self.replaced: set[str] = set()  # containers stopped to be started again
        self._hooks: dict[str, asyncio.Task[None]] = {}  # preStop hooks that run
        self._deadline: float | None = None  # end of the grace period, monotonic

    def kill(self, pod: Object, sandbox: Sandbox) -> float:
        """Stops what has to stop now; returns seconds until the next step, zero when nothing runs any
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
        if container.id not in self._told:
            self._told.add(container.id)
            self._tell(pod, container, f"Container {container.name} {why}")
            delay = _pre_stop_seconds(pod, container.name)
            grace = pod_spec.grace_seconds(pod)
            self._services.runtime.stop_container(sandbox, container, grace, delay)

    def _waves(self, pod: Object, sandbox: Sandbox) -> list[list[Container]]:
        """Returns the groups that stop together, in order."""
        order = {spec["name"]: index for index, spec in enumerate(pod_spec.init_containers(pod))}
        sidecars = {spec["name"] for spec in pod_spec.init_containers(pod) if is_sidecar(spec)}
        regular = [container for container in sandbox.containers if container.name not in sidecars]
        late = [container for container in sandbox.containers if container.name in sidecars]
        late.sort(key=lambda container: -order[container.name])
        return [regular, *([container] for container in late)]

    def _stop(self, pod: Object, sandbox: Sandbox, container: Container, grace: float) -> None:
        services = self._services
        if container.id not in self._told:
            self._told.add(container.id)
            message = f"Stopping container {container.name}"
            self._tell(pod, container, message)
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
        """Returns the command of the container's preStop hook, if it runs here."""
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

    def _tell(self, pod: Object, container: Container, message: str) -> None:
        where = pod_spec.field_path(pod, container.name)
        self._services.recorder.event(pod, "Normal", "Killing", message, field_path=where)

    def _remaining_grace(self, pod: Object) -> float:
        """Returns the rest of the pod's grace period: one for all groups; a second DELETE can shorten it."""
        now = self._services.clock.monotonic()
        ends = now + pod_spec.grace_seconds(pod)
        self._deadline = ends if self._deadline is None else min(self._deadline, ends)
        return max(0.0, self._deadline - now)


def _seconds_left(containers: list[Container], now: datetime) -> float:
    ends = [c.ends_at for c in containers if c.ends_at is not None]
    return (max(ends) - now).total_seconds() if ends else 0.0


def _pre_stop_seconds(pod: Object, name: str) -> float:
    """Returns how long the preStop hook delays SIGTERM; only a `sleep` takes time here."""
    specs = [*pod_spec.containers(pod), *pod_spec.init_containers(pod)]
    spec: Object = next((spec for spec in specs if spec["name"] == name), {})
    hook = ((spec.get("lifecycle") or {}).get("preStop") or {}).get("sleep") or {}
    return float(hook.get("seconds") or 0)
