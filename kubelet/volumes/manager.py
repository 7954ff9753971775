"""The volumes of one node's pods: sets them up as directories, keeps them up to date, and removes them.

Source: pkg/kubelet/volumemanager; pkg/volume/util/operationexecutor/operation_generator.go;
pkg/volume/{emptydir,local,csi,image}, 1.36.
"""

import logging
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from kubeskew.apimachinery.clock import Clock, Entropy
from kubeskew.apimachinery.go_formats import quoted
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.containers.environment import ConfigError
from kubeskew.kubelet.features import VolumeFeatures
from kubeskew.kubelet.volumes import host_paths
from kubeskew.kubelet.volumes.atomic_writer import AtomicWriter
from kubeskew.kubelet.volumes.claims import check_node, claimed_volume
from kubeskew.kubelet.volumes.files import VolumeFiles, go_error
from kubeskew.kubelet.volumes.layout import NodeRoot, PodDirectories
from kubeskew.kubelet.volumes.memory import MemoryDirectories
from kubeskew.kubelet.volumes.nested_mount_points import nested_mount_points
from kubeskew.kubelet.volumes.objects import PodObjects
from kubeskew.kubelet.volumes.ownership import change_policy, fs_group, give_to_group
from kubeskew.kubelet.volumes.sources import PLUGINS, SetUpError, VolumeSources, used_volumes

log = logging.getLogger(__name__)

_EMPTY_DIR = "kubernetes.io~empty-dir"
_WRAPPED = "wrapped_"
_DIRECTORY_MODE, _VOLUME_MODE, _NESTED_MODE = 0o750, 0o777, 0o755
_READY = "ready"
_GROUP = "pv.beta.kubernetes.io/gid"
SYNC_SECONDS = 60.0  # a pod's files are looked at again after this, or up to half as much later


class MountedVolume(NamedTuple):
    """A volume that is set up."""

    name: str  # in the pod
    path: Path | None  # None for an image's
    read_only: bool = False
    host_path: str = ""  # the path on the node, of a hostPath
    image: str = ""
    persistent: str = ""  # the persistent volume's name
    group: str = ""  # that the persistent volume asks for


class VolumeSetUpError(ConfigError):
    """Volumes cannot be set up; `messages` are those of the pod's events."""

    def __init__(self, messages: list[str]) -> None:
        super().__init__("; ".join(messages))
        self.messages = messages


class Node(NamedTuple):
    """The things that volumes know of their node."""

    name: str
    root: NodeRoot
    directories: PodDirectories
    labels: Callable[[], Mapping[str, str]]


class VolumeManager:
    def __init__(
        self,
        node: Node,
        objects: PodObjects,
        sources: VolumeSources,
        clock: Clock,
        entropy: Entropy,
        features: VolumeFeatures,
        files: VolumeFiles,
        memory: MemoryDirectories,
    ) -> None:
        self._node = node
        self._objects = objects
        self._sources = sources
        self._clock = clock
        self._entropy = entropy
        self._features = features
        self._files = files
        self._memory = memory
        self._mounted: dict[str, dict[str, MountedVolume]] = {}  # by pod UID and name
        self._unchanged: dict[str, dict[str, None]] = {}  # texts about owners, by pod UID

    def mounted(self, uid: str) -> Mapping[str, MountedVolume]:
        return self._mounted.get(uid) or {}

    async def set_up(self, pod: Object) -> None:
        """Sets up the volumes that containers use, and brings those up to date that are there.

        Raises VolumeSetUpError; a volume that is up already stays so.
        """
        uid = pod_spec.uid_of(pod)
        directories = self._node.directories
        for path in (directories.pod(uid), directories.volumes(uid), directories.pod(uid) / "plugins"):
            self._files.make_directories(path, _DIRECTORY_MODE)
        mounted = self._mounted.setdefault(uid, {})
        failures: list[str] = []
        unprocessed: dict[str, str] = {}
        for volume in used_volumes(pod):
            name = volume["name"]
            if name in mounted and not any(field in volume for field in PLUGINS):
                continue  # only files of the API change
            try:
                mounted[name] = await self._set_up(pod, volume)
            except SetUpError as error:
                failures.append(str(error))
            except ConfigError as error:  # no step was reached
                unprocessed[name] = str(error)
            self._note_owners(uid, name)
        if unprocessed:
            names = " ".join(sorted(unprocessed))
            missing = " ".join(sorted(v["name"] for v in used_volumes(pod) if v["name"] not in mounted))
            text = "; ".join(unprocessed.values())
            failures.append(
                f"Unable to attach or mount volumes: unmounted volumes=[{missing}], unattached volumes=[], "
                f"failed to process volumes=[{names}]: {text}"
            )
        if failures:
            raise VolumeSetUpError(failures)

    def is_ready(self, pod: Object) -> bool:
        """All volumes that containers use are up."""
        mounted = self.mounted(pod_spec.uid_of(pod))
        return all(volume["name"] in mounted for volume in used_volumes(pod))

    def next_sync_seconds(self) -> float:
        return SYNC_SECONDS * (1 + self._entropy.random() / 2)

    # -- plugins

    async def _set_up(self, pod: Object, volume: Object) -> MountedVolume:
        name = volume["name"]
        if any(field in volume for field in PLUGINS):
            return await self._api_volume(pod, volume)
        is_mounted = _is_mounted(pod, name)
        claimed = await claimed_volume(self._objects, pod, volume, is_mounted=is_mounted)
        if claimed is not None:
            return self._persistent(pod, name, claimed.volume, read_only=claimed.read_only)
        if (source := volume.get("emptyDir")) is not None:
            return MountedVolume(name, self._empty_dir(pod, name, source.get("medium") or ""))
        if (source := volume.get("hostPath")) is not None:
            return MountedVolume(name, self._host_path(name, source), host_path=source["path"])
        if (source := volume.get("image")) is not None and self._features.images:
            return MountedVolume(name, None, read_only=True, image=source.get("reference") or "")
        if (source := volume.get("csi")) is not None:
            raise SetUpError("SetUp", name, _no_driver("mounter.SetUpAt failed to get CSI client", source))
        raise ConfigError(_unmatched(name))

    async def _api_volume(self, pod: Object, volume: Object) -> MountedVolume:
        uid, name = pod_spec.uid_of(pod), volume["name"]
        plugin = next(plugin for field, plugin in PLUGINS.items() if field in volume)
        directory = self._node.directories.volume(uid, plugin, name)
        try:
            payload = await self._sources.files(pod, volume)
        except ConfigError as error:
            raise SetUpError("SetUp", name, str(error)) from None
        group = fs_group(pod)
        writer = AtomicWriter(
            self._files, directory, self._clock, self._entropy, owns_links=self._features.owns_links
        )
        is_new = self._files.status(directory) is None
        try:
            self._make_plain(pod, directory, f"{_WRAPPED}{name}")
            for relative in nested_mount_points(name, pod):
                self._files.make_directories(directory / relative, _NESTED_MODE)
            writer.write(payload, lambda: give_to_group(self._files, directory, group, read_only=True))
        except (OSError, ConfigError) as error:
            if is_new:
                self._files.remove_tree(directory)
            raise SetUpError("SetUp", name, self._words(error)) from None
        return MountedVolume(name, directory, read_only=True)

    def _empty_dir(self, pod: Object, name: str, medium: str) -> Path:
        directory = self._node.directories.volume(pod_spec.uid_of(pod), _EMPTY_DIR, name)
        try:
            if medium == "Memory":
                return self._memory_dir(pod, directory, name)
            if medium == "HugePages" or medium.startswith("HugePages-"):
                text = f"medium {medium}: hugePages storage requested, but there is no resource request for "
                raise SetUpError("SetUp", name, f"{text}huge pages")
            if medium:
                raise SetUpError("SetUp", name, f"unknown storage medium {quoted(medium)}")
            self._make_plain(pod, directory, name)
        except OSError as error:
            raise SetUpError("SetUp", name, self._words(error)) from None
        return directory

    def _memory_dir(self, pod: Object, directory: Path, name: str) -> Path:
        """Makes a link to a directory in memory; without memory the directory is on the disk."""
        if self._files.status(directory) is None:
            place = self._memory.make(pod_spec.uid_of(pod), name)
            if place is not None:
                self._files.make_directories(directory.parent, _DIRECTORY_MODE)
                self._files.link(directory, str(place))
        self._make_plain(pod, directory.resolve(), name)
        return directory.resolve()

    def _make_plain(self, pod: Object, directory: Path, name: str) -> None:
        """Makes a directory for all, once: what it is later is the containers' business. Raises OSError."""
        ready = self._node.directories.plugin(pod_spec.uid_of(pod), _EMPTY_DIR, name)
        if self._files.status(ready / _READY) is not None and self._files.status(directory) is not None:
            return
        self._files.make_directories(directory.parent, _DIRECTORY_MODE)
        self._files.make_directories(directory, _VOLUME_MODE)
        self._files.change_mode(directory, _VOLUME_MODE)
        give_to_group(self._files, directory, fs_group(pod), read_only=False)
        self._files.make_directories(ready, _DIRECTORY_MODE)
        self._files.write(ready / _READY, b"", 0o644)

    def _host_path(self, name: str, source: Object) -> Path:
        try:
            return host_paths.set_up(source, self._node.root, self._files)
        except ConfigError as error:
            raise SetUpError("SetUp", name, str(error)) from None

    def _persistent(self, pod: Object, name: str, volume: Object, *, read_only: bool) -> MountedVolume:
        """Sets up a persistent volume that is a directory of the node, as local provisioners make them."""
        spec, metadata = volume["spec"], volume["metadata"]
        volume_name = metadata["name"]
        mounted = MountedVolume(
            name,
            None,
            read_only=read_only,
            persistent=volume_name,
            group=(metadata.get("annotations") or {}).get(_GROUP) or "",
        )
        try:
            check_node(volume, self._node.labels(), self._node.name)
        except ConfigError as error:
            raise SetUpError("NodeAffinity check", volume_name, str(error)) from None
        if spec.get("mountOptions"):
            text = "mount options are not supported for this volume type"
            raise SetUpError("MountOptionSupport check", volume_name, text)
        if spec.get("accessModes") == ["ReadWriteOncePod"] and self._is_used(volume_name, pod):
            text = "volume uses the ReadWriteOncePod access mode and is already in use by another pod"
            raise SetUpError("SetUp", volume_name, text)
        if (source := spec.get("hostPath")) is not None:
            path = self._host_path(volume_name, source)
            return mounted._replace(path=path, host_path=source["path"])
        if (source := spec.get("local")) is not None:
            path = self._local(pod, volume_name, source, read_only=read_only)
            return mounted._replace(path=path, host_path=source["path"])
        if (source := spec.get("csi")) is not None:
            cause = _no_driver("attacher.MountDevice failed to create newCsiDriverClient", source)
            raise SetUpError("MountDevice", volume_name, cause)
        raise ConfigError(_unmatched(volume_name))

    def _is_used(self, volume_name: str, pod: Object) -> bool:
        return any(
            volume.persistent == volume_name
            for uid, volumes in self._mounted.items()
            if uid != pod_spec.uid_of(pod)
            for volume in volumes.values()
        )

    def _local(self, pod: Object, name: str, source: Object, *, read_only: bool) -> Path:
        path = source.get("path") or ""
        if not path:
            raise SetUpError("SetUp", name, f"LocalVolume volume {quoted(name)} path is empty")
        if ".." in path.split("/"):
            raise SetUpError("SetUp", name, f"invalid path: {path} must not contain '..'")
        try:
            place = self._node.root.resolve(path)
            status = self._files.status(place)
            if status is None:
                raise SetUpError("NewMounter initialization", name, f'path "{path}" does not exist')
            if not stat.S_ISDIR(status.st_mode):
                text = "only directory and block device are supported"
                raise SetUpError("NewMounter initialization", name, text)
            group = None if read_only else fs_group(pod)
            give_to_group(self._files, place, group, read_only=False, policy=change_policy(pod))
        except OSError as error:
            raise SetUpError("SetUp", name, self._words(error)) from None
        return place

    def groups(self, pod: Object) -> list[int]:
        """The groups that the pod's persistent volumes ask for besides its own."""
        asked = {volume.group for volume in self.mounted(pod_spec.uid_of(pod)).values()}
        own = (pod["spec"].get("securityContext") or {}).get("supplementalGroups") or ()
        return sorted({int(text) for text in asked if text.isdecimal()} - set(own))

    # -- limits

    def excess(self, pod: Object) -> str:
        """The message of the pod's eviction if an emptyDir has become larger than it may be, else empty.

        Source: pkg/kubelet/eviction/eviction_manager.go (emptyDirLimitEviction), 1.36.
        """
        mounted = self.mounted(pod_spec.uid_of(pod))
        for volume in pod["spec"].get("volumes") or []:
            text = (volume.get("emptyDir") or {}).get("sizeLimit")
            path = mounted[volume["name"]].path if volume["name"] in mounted else None
            if text is None or path is None:
                continue
            limit = Quantity.parse(str(text))
            if limit.sign() > 0 and self._files.used_bytes(path) > limit.value():
                name, size = quoted(volume["name"]), quoted(limit.canonical())
                return f"Usage of EmptyDir volume {name} exceeds the limit {size}. "
        return ""

    def has_limits(self, pod: Object) -> bool:
        volumes = pod["spec"].get("volumes") or []
        return any((volume.get("emptyDir") or {}).get("sizeLimit") is not None for volume in volumes)

    # -- the end

    def forget(self, uid: str) -> None:
        """Forgets the volumes of a pod whose containers have ended for ever. Unlike the removal of files, it
        must not be called in another thread."""
        self._mounted.pop(uid, None)
        self._sources.forget(uid)

    def remove_volumes(self, uid: str) -> None:
        """Removes the files of the pod's volumes; what is elsewhere on the node stays, and what its
        containers have written for the kubelet. Raises OSError."""
        self._memory.remove(uid)
        pod = self._node.directories.pod(uid)
        for directory in (self._node.directories.volumes(uid), pod / "volume-subpaths", pod / "plugins"):
            self._files.remove_tree(directory)

    def remove_pod(self, uid: str) -> None:
        """Removes all of the pod's files. Raises OSError."""
        self.remove_volumes(uid)
        self._files.remove_tree(self._node.directories.pod(uid))

    def _note_owners(self, uid: str, name: str) -> None:
        """Takes note of the users and groups to whom files of the volume could not be given."""
        for _, user, group in self._files.take_unchanged():
            whom = f"user {user}" if user >= 0 else f"group {group}"
            text = (
                f"Files of volume {quoted(name)} cannot be given to {whom}: the kubelet does not run as root"
            )
            self._unchanged.setdefault(uid, {})[text] = None

    def take_unchanged(self, uid: str) -> list[str]:
        """Words whose files could not be given to whom, since the last call."""
        return [*self._unchanged.pop(uid, {})]

    def _words(self, error: OSError | ConfigError) -> str:
        if not isinstance(error, OSError):
            return str(error)
        path = error.filename if error.filename is not None else ""
        return go_error("open", self._node.directories.node_path(Path(str(path))), error)


def _is_mounted(pod: Object, name: str) -> bool:
    containers = pod_spec.all_containers(pod)
    return any(mount["name"] == name for spec in containers for mount in spec.get("volumeMounts") or ())


def _unmatched(name: str) -> str:
    return f"failed to get Plugin from volumeSpec for volume {quoted(name)} err=no volume plugin matched"


def _no_driver(step: str, source: Object) -> str:
    missing = f"driver name {source.get('driver')} not found in the list of registered CSI drivers"
    return f"kubernetes.io/csi: {step}: {missing}"
