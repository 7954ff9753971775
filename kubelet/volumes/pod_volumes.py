"""The volumes of pods as pod workers use them: directories, or only checked where nobody sees their files."""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from kubeskew.apimachinery.client.recorder import EventRecorder
from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.containers.environment import ConfigError
from kubeskew.kubelet.containers.runtime_service import LogLine, Mount
from kubeskew.kubelet.device_managers import HostMount
from kubeskew.kubelet.volumes.hostnames import Hostname
from kubeskew.kubelet.volumes.manager import VolumeSetUpError
from kubeskew.kubelet.volumes.mounts import PodView
from kubeskew.kubelet.volumes.node_volumes import NodeVolumes
from kubeskew.kubelet.volumes.sources import VolumeSources
from kubeskew.kubelet.volumes.termination_message import termination_message

log = logging.getLogger(__name__)

# The annotation of a container that names the file of its message, as its runtime keeps it.
MESSAGE_FILE = "io.kubernetes.container.terminationMessageFile"
LIMIT_SECONDS = 10.0  # between two looks at emptyDirs that have a limit

ImageDirectory = Callable[[str], Path | None]
ReadLog = Callable[[], Sequence[LogLine]]


@runtime_checkable
class ImageDirectories(Protocol):
    """An image service whose images are directories of this machine."""

    def image_directory(self, name: str) -> Path | None:
        """The root of an image that the node has."""
        ...


class ContainerView(NamedTuple):
    """The circumstances of a container that begins."""

    hostname: Hostname
    ips: Sequence[str] = ()
    env: Mapping[str, str] = {}
    devices: Sequence[HostMount] = ()


class MountedFiles(NamedTuple):
    """The mounts of a container, and the annotations that the kubelet needs of it later."""

    mounts: Sequence[Mount] = ()
    annotations: Mapping[str, str] = {}


class PodVolumes(Protocol):
    """The volumes of one node's pods."""

    are_directories: bool  # else only what they need is checked, before a pod begins

    async def set_up(self, pod: Object) -> None:
        """Sets up the volumes that containers use, or brings them up to date. Raises VolumeSetUpError."""
        ...

    def is_up(self, pod: Object) -> bool: ...

    def files_of(self, pod: Object, spec: Object, view: ContainerView) -> MountedFiles:
        """The mounts of a container that begins. Raises ConfigError."""
        ...

    def message(self, spec: Object, annotations: Mapping[str, str], exit_code: int, read_log: ReadLog) -> str:
        """The message with which a container ended; its annotations are those that `files_of` gave."""
        ...

    def next_sync(self, pod: Object) -> float | None:
        """The seconds until the volumes should be set up again; None if nothing can change."""
        ...

    async def excess(self, pod: Object) -> str:
        """The message of the pod's eviction if a volume is larger than it may be, else empty."""
        ...

    def groups(self, pod: Object) -> Sequence[int]:
        """The groups that volumes ask for besides the pod's."""
        ...

    async def tear_down(self, uid: str) -> None:
        """Removes the volumes of a pod whose containers have ended for ever."""
        ...

    async def remove_pod(self, uid: str) -> None:
        """Removes all that is left of a pod that is gone."""
        ...

    async def clean_up(self, known: Collection[str]) -> None:
        """Removes what is left of all pods but the known ones."""
        ...


class CheckedVolumes:
    """Volumes of containers that are only acted: what they need must exist."""

    are_directories = False

    def __init__(self, sources: VolumeSources) -> None:
        self._sources = sources

    async def set_up(self, pod: Object) -> None:
        try:
            await self._sources.check(pod)
        except ConfigError as error:
            raise VolumeSetUpError([str(error)]) from None

    def is_up(self, pod: Object) -> bool:
        return True

    def files_of(self, pod: Object, spec: Object, view: ContainerView) -> MountedFiles:
        """Names what drivers mount, as they name it."""
        return MountedFiles(
            [Mount(mount.path, Path(mount.host_path), mount.read_only) for mount in view.devices]
        )

    def message(self, spec: Object, annotations: Mapping[str, str], exit_code: int, read_log: ReadLog) -> str:
        return ""

    def next_sync(self, pod: Object) -> float | None:
        return None

    async def excess(self, pod: Object) -> str:
        return ""

    def groups(self, pod: Object) -> Sequence[int]:
        return ()

    async def tear_down(self, uid: str) -> None:
        self._sources.forget(uid)

    async def remove_pod(self, uid: str) -> None:
        self._sources.forget(uid)

    async def clean_up(self, known: Collection[str]) -> None:
        return None


class DirectoryVolumes:
    """Volumes of containers that are processes."""

    are_directories = True

    def __init__(
        self,
        volumes: NodeVolumes,
        recorder: EventRecorder,
        image_directory: ImageDirectory,
        offload: Callable[..., Any] | None = None,
    ) -> None:
        """`image_directory` finds the root of an image that is there; `offload` runs what takes long, by
        default in a thread."""
        self._volumes = volumes
        self._recorder = recorder
        self._image_directory = image_directory
        self._offload = offload or asyncio.to_thread

    async def set_up(self, pod: Object) -> None:
        try:
            await self._volumes.manager.set_up(pod)
        finally:
            for text in self._volumes.manager.take_unchanged(pod_spec.uid_of(pod)):
                log.warning("pod %s: %s", pod_spec.full_name(pod), text)
                self._recorder.event(pod, "Warning", "VolumeOwnershipUnchanged", text)

    def is_up(self, pod: Object) -> bool:
        return self._volumes.manager.is_ready(pod)

    def files_of(self, pod: Object, spec: Object, view: ContainerView) -> MountedFiles:
        mounted = self._volumes.manager.mounted(pod_spec.uid_of(pod))
        images = {
            name: directory
            for name, volume in mounted.items()
            if volume.image and (directory := self._image_directory(volume.image)) is not None
        }
        maker = self._volumes.mounts
        pod_view = PodView(mounted, view.hostname, view.ips, images)
        found = maker.mounts(pod, spec, pod_view, view.env)
        found += maker.device_mounts(view.devices)
        annotations = {}
        try:
            message = maker.termination_mount(pod, spec)
        except OSError as error:
            log.error("cannot make the file of a termination message: %s", error)
        else:
            if message is not None:
                found.append(message)
                annotations[MESSAGE_FILE] = str(message.mount.host_path)
        return MountedFiles([each.mount for each in found], annotations)

    def message(self, spec: Object, annotations: Mapping[str, str], exit_code: int, read_log: ReadLog) -> str:
        name = annotations.get(MESSAGE_FILE)
        return termination_message(spec, Path(name) if name else None, exit_code, read_log)

    def next_sync(self, pod: Object) -> float | None:
        if not pod["spec"].get("volumes"):
            return None
        if self._volumes.manager.has_limits(pod):
            return LIMIT_SECONDS
        return self._volumes.manager.next_sync_seconds()

    async def excess(self, pod: Object) -> str:
        if not self._volumes.manager.has_limits(pod):
            return ""
        text: str = await self._offload(self._volumes.manager.excess, pod)
        return text

    def groups(self, pod: Object) -> Sequence[int]:
        return self._volumes.manager.groups(pod)

    async def tear_down(self, uid: str) -> None:
        await self._remove(self._volumes.manager.remove_volumes, uid)

    async def remove_pod(self, uid: str) -> None:
        await self._remove(self._volumes.manager.remove_pod, uid)

    async def _remove(self, remove: Callable[[str], None], uid: str) -> None:
        self._volumes.manager.forget(uid)
        try:
            await self._offload(remove, uid)
        except OSError as error:
            log.error("volumes of pod %s: %s", uid, error)  # what is left is removed with orphans

    async def clean_up(self, known: Collection[str]) -> None:
        orphans = self._volumes.orphans.find(known)  # a pod that comes meanwhile is not among them
        await self._offload(self._volumes.memory.remove_lost)
        await self._offload(self._volumes.orphans.remove, orphans)
