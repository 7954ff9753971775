"""Notes what the containers of a pod use whenever its annotations or its resources have changed."""

from datetime import datetime

from kubeskew.apimachinery.client.recorder import EventRecorder
from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.containers.runtime import FakeRuntime
from kubeskew.kubelet.containers.sandbox import Sandbox
from kubeskew.kubelet.containers.usage import demand_of, errors_of


class UsageMeter:
    """Has the runtime count what one pod's containers use, and tells of annotations that are no amounts."""

    def __init__(self, runtime: FakeRuntime, recorder: EventRecorder) -> None:
        self._runtime = runtime
        self._recorder = recorder
        self._told: tuple[str, ...] = ()

    def follow(self, pod: Object, sandbox: Sandbox, now: datetime) -> None:
        """Counts by the pod as it is now, from now on."""
        for spec in pod_spec.all_containers(pod):
            container = sandbox.latest(spec["name"])
            if container is not None and container.running(now):
                self._runtime.meter(sandbox, container, demand_of(pod, spec).cores)
        wrong = tuple(errors_of(pod))
        for text in wrong if wrong != self._told else ():
            self._recorder.event(pod, "Warning", "InvalidUsage", text)
        self._told = wrong
