"""Runs the postStart hooks of one pod's containers.

Source: pkg/kubelet/kuberuntime/kuberuntime_container.go (startContainer, step 4). A failed hook ends its
container; the event does not carry the hook's output, so that no secret leaks.

A hook runs beside the pod's worker: its container counts as started, and the next one starts (upstream: after
the hook has ended). So a hook that sleeps has no effect.
"""

import asyncio

from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.containers.sandbox import Container, Sandbox
from kubeskew.kubelet.pods.probing import command_of, run_in_container
from kubeskew.kubelet.pods.services import NodeServices

_LONGEST_SECONDS = 1e6  # upstream has no limit for hooks


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
        """Cancels the hooks that are running."""
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
