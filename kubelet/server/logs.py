"""`/containerLogs`: the output of a container.

Source: pkg/kubelet/server/server.go, kubelet_pods.go (validateContainerLogStatus) and
k8s.io/cri-client/pkg/logs/logs.go, 1.36.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from kubeskew.apimachinery.clock import parse_timestamp
from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.containers.runtime_service import LogLine, RuntimeService
from kubeskew.kubelet.containers.sandbox import Container, Sandbox
from kubeskew.kubelet.server.stats import NodeView, ServerError

_WAITING = {
    "ErrImagePull": "image can't be pulled",
    "ImagePullBackOff": "trying and failing to pull image",
}
_STATUSES = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")


@dataclass(frozen=True, slots=True)
class LogOptions:
    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    since: datetime | None = None
    tail: int | None = None
    limit: int | None = None
    stream: str = "All"

    @classmethod
    def of(cls, query: Mapping[str, str], now: datetime) -> "LogOptions":
        """Raises ServerError."""
        try:
            since = parse_timestamp(query["sinceTime"]) if query.get("sinceTime") else None
            if query.get("sinceSeconds"):
                since = now - timedelta(seconds=int(query["sinceSeconds"]))
            return cls(
                follow=_true(query, "follow"),
                previous=_true(query, "previous"),
                timestamps=_true(query, "timestamps"),
                since=since,
                tail=int(query["tailLines"]) if query.get("tailLines") else None,
                limit=int(query["limitBytes"]) if query.get("limitBytes") else None,
                stream=query.get("stream") or "All",
            )
        except ValueError:
            raise ServerError(400, '{"message": "Unable to decode query."}') from None


def _true(query: Mapping[str, str], name: str) -> bool:
    return query.get(name) in {"true", "1"}


async def container_logs(
    view: NodeView, namespace: str, name: str, container: str, options: LogOptions
) -> AsyncIterator[bytes]:
    """The log comes in pieces. Raises ServerError."""
    pod = view.pod(namespace, name)
    if pod is None:
        raise ServerError(404, f'pod "{name}" does not exist')
    if not any(spec["name"] == container for spec in pod_spec.all_containers(pod)):
        raise ServerError(404, f'container "{container}" not found in pod "{name}"')
    identifier = _container_id(pod, container, previous=options.previous)
    sandbox = view.runtime.sandbox(pod_spec.uid_of(pod))
    found = _attempt(sandbox, identifier)
    if sandbox is None or found is None:
        text = f'failed to try resolving symlinks in path "/var/log/pods/{namespace}_{name}_'
        text += f'{pod_spec.uid_of(pod)}/{container}/0.log": lstat: no such file or directory'
        raise ServerError(400, text)
    return _limited(_read(view.runtime, sandbox, found, options), options.limit)


def _attempt(sandbox: Sandbox | None, identifier: str) -> Container | None:
    containers = sandbox.containers if sandbox is not None else []
    return next((container for container in containers if container.container_id == identifier), None)


def _container_id(pod: Object, name: str, *, previous: bool) -> str:
    """Finds the id of the attempt whose log is requested. Raises ServerError if there is none."""
    status = pod.get("status") or {}
    every = [container_status for field in _STATUSES for container_status in status.get(field) or []]
    found = next((container_status for container_status in every if container_status["name"] == name), None)
    where = f'container "{name}" in pod "{pod_spec.name_of(pod)}"'
    if found is None:
        raise ServerError(400, f"{where} is not available")
    state = found.get("state") or {}
    last = ((found.get("lastState") or {}).get("terminated") or {}).get("containerID") or ""
    if previous:
        if not last:
            raise ServerError(400, f"previous terminated {where} not found")
        return str(last)
    if "running" in state:
        return str(found["containerID"])
    if "terminated" in state or (found.get("lastState") or {}).get("terminated"):
        identifier = (state.get("terminated") or {}).get("containerID") or last
        if not identifier:
            raise ServerError(400, f"{where} is terminated")
        return str(identifier)
    if "waiting" in state:
        reason = state["waiting"].get("reason", "")
        raise ServerError(400, f"{where} is waiting to start: {_WAITING.get(reason, reason)}")
    raise ServerError(400, f"{where} is waiting to start - no logs yet")


async def _read(
    runtime: RuntimeService, sandbox: Sandbox, container: Container, options: LogOptions
) -> AsyncIterator[bytes]:
    lines = [line for line in runtime.logs(sandbox, container) if _is_wanted(line, options)]
    following = runtime.follow_logs(sandbox, container) if options.follow else None
    if options.tail is not None:
        lines = lines[-options.tail :] if options.tail else []
    for line in lines:
        yield _shown(line, options)
    if following is not None:
        async for line in following:
            if _is_wanted(line, options):
                yield _shown(line, options)


def _is_wanted(line: LogLine, options: LogOptions) -> bool:
    is_late = options.since is None or line.time >= options.since
    return is_late and options.stream.lower() in {"all", "", line.stream}


def _shown(line: LogLine, options: LogOptions) -> bytes:
    if not options.timestamps:
        return line.data
    return line.time.strftime("%Y-%m-%dT%H:%M:%S.%f000Z ").encode() + line.data


async def _limited(pieces: AsyncIterator[bytes], limit: int | None) -> AsyncIterator[bytes]:
    left = limit
    async for piece in pieces:
        if left is None:
            yield piece
            continue
        yield piece[:left]
        left -= len(piece)
        if left <= 0:
            return
