"""The programs that the driver's pods name, run as processes of this machine while their pods run."""

import asyncio
import base64
import contextlib
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.client.refs import PODS, SECRETS, SERVICE_ACCOUNTS, SERVICES
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.objects import Object

_PERIOD_SECONDS = 0.1
_STOP_SECONDS = 10
_LOCAL_ADDRESS = "apiserver.kubeskew.io/local-address"


@dataclass(frozen=True)
class Node:
    """The directories that stand for those which a node's host would have."""

    directories: Mapping[str, str]  # by what the host calls them

    @classmethod
    def of_status(cls, entry: Mapping[str, str]) -> "Node":
        """`entry` is the node's in `kubeskew status -o json`."""
        return cls(
            {
                "/var/lib/kubelet/plugins_registry": entry["registrarDir"],
                "/var/lib/kubelet/plugins": entry["pluginsDir"],
                "/var/run/cdi": entry["cdiDir"],
            }
        )


class PodProcesses:
    """Starts a process for each container whose command is one of the programs, and ends it with its pod."""

    def __init__(
        self,
        client: APIClient,
        clock: Clock,
        kubeconfig: Path,
        nodes: Mapping[str, Node],
        programs: Path,
        logs: Path,
    ) -> None:
        self._client = client
        self._clock = clock
        self._kubeconfig = yaml.safe_load(kubeconfig.read_text())
        self._nodes = nodes
        self._programs = programs
        self._logs = logs
        self._processes: dict[tuple[str, str], asyncio.subprocess.Process] = {}  # by pod's UID and container

    async def run(self) -> None:
        """Follows the pods until cancelled."""
        self._logs.mkdir(parents=True, exist_ok=True)
        pods = Informer(self._client, PODS, self._clock)
        pods.start()
        try:
            while True:
                running = {pod["metadata"]["uid"]: pod for pod in pods.list() if _runs(pod)}
                for key in [key for key in self._processes if key[0] not in running]:
                    await self._end(self._processes.pop(key))
                for pod in running.values():
                    await self._start_containers(pod)
                await self._clock.sleep(_PERIOD_SECONDS)
        finally:
            await pods.stop()

    async def stop(self) -> None:
        for process in self._processes.values():
            await self._end(process)
        self._processes.clear()

    async def _start_containers(self, pod: Object) -> None:
        for container in pod["spec"]["containers"]:
            program = (container.get("command") or [""])[0]
            key = pod["metadata"]["uid"], container["name"]
            if program and key not in self._processes and (self._programs / program).is_file():
                self._processes[key] = await self._start(pod, container)

    async def _start(self, pod: Object, container: Object) -> asyncio.subprocess.Process:
        directory = self._logs / pod["metadata"]["uid"]
        directory.mkdir(exist_ok=True)
        places = await self._mounts(pod, container, directory)
        port = _free_port()
        listening = {str(entry["containerPort"]) for entry in container.get("ports") or ()}
        arguments = [
            _flag(_moved(text, places), listening, port)
            for text in [*container["command"][1:], *(container.get("args") or ())]
        ]
        environment = {
            entry["name"]: _moved(_value(entry, pod), places) for entry in container.get("env") or ()
        }
        # Every pod has an address of its own; here all share one.
        environment |= {name: "0" for name in environment if name.endswith("_PORT")}
        kubeconfig = await self._write_kubeconfig(pod, directory)
        await self._lead_services(pod, port)
        with (directory / f"{container['name']}.log").open("wb") as log:
            return await asyncio.create_subprocess_exec(
                str(self._programs / container["command"][0]),
                *arguments,
                env={"PATH": os.environ["PATH"], **environment, "KUBECONFIG": str(kubeconfig)},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    async def _mounts(self, pod: Object, container: Object, directory: Path) -> dict[str, str]:
        """Places of the container's volumes on this machine, by mount path."""
        volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
        host = self._nodes[pod["spec"]["nodeName"]].directories
        places = {}
        for mount in container.get("volumeMounts") or ():
            volume = volumes[mount["name"]]
            if path := host.get((volume.get("hostPath") or {}).get("path")):
                places[mount["mountPath"]] = path
            elif "secret" in volume:
                name = volume["secret"]["secretName"]
                places[mount["mountPath"]] = await self._write_secret(pod, name, directory / name)
        return places

    async def _write_secret(self, pod: Object, name: str, directory: Path) -> str:
        secret = await self._client.get(SECRETS, name, pod["metadata"]["namespace"])
        _write_files(directory, secret.get("data") or {})
        return str(directory)

    async def _write_kubeconfig(self, pod: Object, directory: Path) -> Path:
        """Writes a kubeconfig for the pod's own account, by a token that is bound to the pod as a mounted one
        is."""
        metadata = pod["metadata"]
        bound = {"kind": "Pod", "apiVersion": "v1", "name": metadata["name"], "uid": metadata["uid"]}
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"boundObjectRef": bound, "expirationSeconds": 3607},
        }
        answer = await self._client.create(
            SERVICE_ACCOUNTS,
            request,
            metadata["namespace"],
            name=pod["spec"]["serviceAccountName"],
            subresource="token",
        )
        user = {"name": "pod", "user": {"token": answer["status"]["token"]}}
        cluster = {**self._kubeconfig["clusters"][0], "name": "cluster"}
        context = {"name": "pod", "context": {"cluster": "cluster", "user": "pod"}}
        content = {**self._kubeconfig, "clusters": [cluster], "users": [user], "contexts": [context]}
        file = directory / "kubeconfig"
        file.write_text(yaml.safe_dump({**content, "current-context": "pod"}))
        return file

    async def _lead_services(self, pod: Object, port: int) -> None:
        """Annotates the pod's services with the port of this machine at which the API server reaches them."""
        namespace, labels = pod["metadata"]["namespace"], pod["metadata"].get("labels") or {}
        services = await self._client.list(SERVICES, namespace)
        for service in services["items"]:
            selector = service["spec"].get("selector") or {}
            if selector and selector.items() <= labels.items():
                patch = {"metadata": {"annotations": {_LOCAL_ADDRESS: f"127.0.0.1:{port}"}}}
                await self._client.patch(SERVICES, service["metadata"]["name"], namespace, patch)


def _write_files(directory: Path, encoded: Mapping[str, str]) -> None:
    directory.mkdir(exist_ok=True)
    for name, content in encoded.items():
        (directory / name).write_bytes(base64.b64decode(content))


def _runs(pod: Object) -> bool:
    phase = (pod.get("status") or {}).get("phase")
    return phase == "Running" and "deletionTimestamp" not in pod["metadata"]


def _value(entry: Object, pod: Object) -> str:
    """A variable may refer to a field of the pod."""
    if "valueFrom" not in entry:
        return str(entry.get("value", ""))
    value: Any = pod
    for part in entry["valueFrom"]["fieldRef"]["fieldPath"].split("."):
        value = value[part]
    return str(value)


def _moved(text: str, places: Mapping[str, str]) -> str:
    """Paths below a mount lead to its place on this machine; `text` is an argument or value."""
    flag, equals, path = text.partition("=") if text.startswith("-") else ("", "", text)
    for mounted, place in places.items():
        if path == mounted or path.startswith(mounted + "/"):
            return flag + equals + place + path[len(mounted) :]
    return text


def _flag(text: str, listening: set[str], port: int) -> str:
    """`port` replaces one that the container listens on."""
    flag, equals, value = text.partition("=")
    return f"{flag}={port}" if equals and value in listening else text


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
