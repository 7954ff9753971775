"""Starts a pod's containers, and holds back those that crash: back-off, devices, events."""

import functools
import hashlib
import logging
from datetime import datetime, timedelta

from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.cdi.injecting import injected
from kubeskew.kubelet.containers.images import has_unknown_programs
from kubeskew.kubelet.containers.pod_volumes import ConfigError, EncodingError
from kubeskew.kubelet.containers.program import Program, program_of
from kubeskew.kubelet.containers.sandbox import Container, Sandbox
from kubeskew.kubelet.containers.shell import lookup
from kubeskew.kubelet.containers.usage import demand_of
from kubeskew.kubelet.device_managers import ContainerDevices, DeviceError, InjectionError, combined
from kubeskew.kubelet.pods.next_steps import PodActions, should_restart
from kubeskew.kubelet.pods.post_start import PostStartHooks
from kubeskew.kubelet.pods.services import NodeServices
from kubeskew.kubelet.status.container_status import WaitingReason

log = logging.getLogger(__name__)


_RETRY_SECONDS = 10.0
START_FAILED = 128  # the exit code of a container whose program could not be started
_KINDS = {
    "spec.containers": "container",
    "spec.initContainers": "init_container",
    "spec.ephemeralContainers": "ephemeral_container",
}


class ContainerStarter:
    """Starts the containers of one pod."""

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
        """Returns (whether any was started, why the others are held back)."""
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
            assert ended.ends_at is not None  # noqa: S101 - it ended
            self._services.backoff.restarted(_key(pod, spec), ended.ends_at)
            started |= await self._start(pod, sandbox, spec, held_back)
        return started, held_back

    def _back_off(self, pod: Object, spec: Object, ended: Container) -> WaitingReason | None:
        """Returns why the container may not run again yet."""
        assert ended.ends_at is not None  # noqa: S101 - it ended
        backoff, key = self._services.backoff, _key(pod, spec)
        until = backoff.waits_until(key, ended.ends_at)
        if until is None:
            return None
        self._try_again_at(until)
        where = f"container={spec['name']} pod={pod_spec.full_name(pod)}"
        if self._announced.get(spec["name"]) != ended.id:
            self._announced[spec["name"]] = ended.id
            message = f"Back-off restarting failed container {spec['name']} in pod {pod_spec.full_name(pod)}"
            self._tell(pod, spec, "Warning", "BackOff", message)
        text = f"back-off {go_duration(backoff.seconds(key))} restarting failed {where}"
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
        self._tell_image(pod, spec, image)
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
            self._tell(pod, spec, "Warning", "Failed", f"Error: {error}")
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
        self._tell(pod, spec, "Normal", "Created", texts.created.format(name=name))
        if failure:
            services.metrics.started_containers_errors.labels(kind, "RunContainerError").inc()
            self._tell(pod, spec, "Warning", "Failed", f"Error: {failure}")
            if should_restart(pod, spec, container, services.features):
                held_back[name] = WaitingReason("RunContainerError", failure)
            return True
        self._tell(pod, spec, "Normal", "Started", texts.started.format(name=name))
        self.hooks.run(pod, sandbox, container, spec)
        return True

    async def _devices(self, pod: Object, spec: Object) -> ContainerDevices:
        """Returns the devices of claims and of device plugins; raises DeviceError."""
        services = self._services
        claimed = services.devices.for_container(pod, spec)
        asked = combined(claimed, await services.plugins.for_container(pod, spec))
        return combined(asked, injected(services.cdi, asked.cdi_ids))

    def _still_failing(self, name: str) -> WaitingReason | None:
        """Returns why a container could not be made, until its next attempt."""
        failed = self._failed.get(name)
        if failed is None or self._services.clock.now() >= failed[0]:
            return None
        self._try_again_at(failed[0])
        return failed[1]

    def _tell_image(self, pod: Object, spec: Object, image: str) -> None:
        """Records the image's events before every attempt: it is present, or pulled at once."""
        texts = self._services.features.events
        if spec.get("imagePullPolicy") != "Always":
            self._tell(pod, spec, "Normal", "Pulled", texts.pulled.format(image=image))
            return
        self._tell(pod, spec, "Normal", "Pulling", f'Pulling image "{image}"')
        took, size = pull_of(image)
        self._tell(pod, spec, "Normal", "Pulled", texts.fetched.format(image=image, took=took, size=size))

    async def _environment(self, pod: Object, sandbox: Sandbox, spec: Object) -> dict[str, str]:
        """Returns the environment; raises ConfigError.

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

    def _tell(self, pod: Object, spec: Object, kind: str, reason: str, message: str) -> None:
        where = pod_spec.field_path(pod, spec["name"])
        self._services.recorder.event(pod, kind, reason, message, field_path=where)


def start_failure(spec: Object, image: str) -> str:
    """Returns containerd's error for a program that is not in the image; empty if it is, or may be."""
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
    """Returns (seconds, bytes) of a pull, always the same for an image."""
    digest = hashlib.sha256(image.encode()).digest()
    return f"{200 + digest[0] * 3}ms", int.from_bytes(digest[1:5]) % 100_000_000 + 2_000_000


def go_duration(seconds: float) -> str:
    """Formats whole seconds as Go prints a duration: `10s`, `1m20s`, `5m0s`."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
