"""The mounts of a container: its volumes, /etc/hosts and the file for its termination message.

Source: pkg/kubelet/kubelet_pods.go (makeMounts); pkg/kubelet/kuberuntime/kuberuntime_container.go, 1.31 to
1.36.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from kubeskew.apimachinery.clock import Entropy
from kubeskew.apimachinery.go_formats import quoted
from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.containers.environment import ConfigError
from kubeskew.kubelet.containers.expansion import expanded
from kubeskew.kubelet.containers.runtime_service import Mount
from kubeskew.kubelet.device_managers import HostMount
from kubeskew.kubelet.features import VolumeFeatures
from kubeskew.kubelet.volumes import hosts_file, subpaths
from kubeskew.kubelet.volumes.files import VolumeFiles, check_path, go_error
from kubeskew.kubelet.volumes.hostnames import Hostname
from kubeskew.kubelet.volumes.layout import NodeRoot, PodDirectories
from kubeskew.kubelet.volumes.manager import MountedVolume

_PROPAGATIONS = ("None", "HostToContainer", "Bidirectional")
_CONTAINER_DIRECTORY_MODE, _NODE_DIRECTORY_MODE = 0o750, 0o755
_MESSAGE_MODE, _HOSTS_MODE = 0o666, 0o644


class ContainerMount(NamedTuple):
    """A mount with the name of its volume; `recursive_read_only` also covers what is mounted below it."""

    name: str
    mount: Mount
    recursive_read_only: bool = False


@dataclass(frozen=True, slots=True)
class PodView:
    """The things on which the mounts of a pod's containers depend besides its specification."""

    volumes: Mapping[str, MountedVolume]
    hostname: Hostname
    ips: Sequence[str] = ()
    images: Mapping[str, Path] | None = None  # the directories of image volumes, by the volumes' names


class ContainerMounts:
    """Makes the mounts of containers on one node."""

    def __init__(
        self,
        root: NodeRoot,
        directories: PodDirectories,
        files: VolumeFiles,
        entropy: Entropy,
        features: VolumeFeatures,
        *,
        supports_recursive_read_only: bool,
    ) -> None:
        self._root = root
        self._directories = directories
        self._files = files
        self._entropy = entropy
        self._features = features
        self._supports_rro = supports_recursive_read_only

    def mounts(
        self, pod: Object, container: Object, view: PodView, env: Mapping[str, str]
    ) -> list[ContainerMount]:
        """The mounts of volumes, in the order of the specification, and that of /etc/hosts. Makes the
        directories of subpaths and the hosts file. Raises ConfigError."""
        found: list[ContainerMount] = []
        has_hosts = not (view.ips or pod["spec"].get("hostNetwork"))
        for mount in container.get("volumeMounts") or []:
            has_hosts |= mount["mountPath"] == hosts_file.CONTAINER_PATH
            found += self._volume_mounts(container, mount, view, env)
        if not has_hosts:
            found.append(self._hosts_mount(pod, view))
        return found

    def termination_mount(self, pod: Object, container: Object) -> ContainerMount | None:
        """Makes the file for the message of the container's next attempt. Raises OSError."""
        path = container.get("terminationMessagePath", "/dev/termination-log")
        if not path:
            return None
        check_path(path)
        directory = self._directories.container(pod_spec.uid_of(pod), container["name"])
        self._files.make_directories(directory, _CONTAINER_DIRECTORY_MODE)
        file = directory / self._entropy.uid()[:8]
        self._files.write(file, b"", _MESSAGE_MODE)
        return ContainerMount("", Mount(_absolute(path), file))

    def _make_directory(self, node_path: str, place: Path) -> None:
        """Raises ConfigError."""
        try:
            self._files.make_directories(place, _NODE_DIRECTORY_MODE)
        except OSError as error:
            raise ConfigError(go_error("mkdir", node_path, error)) from None

    def device_mounts(self, mounts: Sequence[HostMount]) -> list[ContainerMount]:
        """The mounts that device plugins and CDI ask for: paths of the node, if they are there, else of this
        machine, because drivers may run on either. The node gets a directory for one that is on neither, as
        containerd does (WithMounts), unless it is CDI's. Raises ConfigError.
        """
        found = []
        for mount in mounts:
            try:
                place = self._root.resolve(mount.host_path)
            except OSError as error:
                raise ConfigError(go_error("stat", mount.host_path, error)) from None
            own = Path(mount.host_path)
            if self._files.status(place) is None and self._files.status(own) is not None:
                place = own
            elif self._files.status(place) is None and not mount.must_exist:
                self._make_directory(mount.host_path, place)
            found.append(ContainerMount("", Mount(mount.path, place, mount.read_only)))
        return found

    # -- volumes

    def _volume_mounts(
        self, container: Object, mount: Object, view: PodView, env: Mapping[str, str]
    ) -> list[ContainerMount]:
        name = mount["name"]
        try:
            check_path(mount["mountPath"])
        except OSError as error:
            raise ConfigError(go_error("mount", mount["mountPath"], error)) from None
        volume = view.volumes.get(name)
        if volume is None:
            raise ConfigError(
                f"cannot find volume {quoted(name)} to mount into container {quoted(container['name'])}"
            )
        if volume.path is None and self._features.image_mounts_first:
            place = self._image_place(volume, view, "")
            return [ContainerMount(name, Mount(mount["mountPath"], place, read_only=True))]
        subpath = _subpath(mount, env)
        if volume.path is None:
            place = self._image_place(volume, view, subpath if self._features.image_subpaths else "")
        else:
            place = self._place(container, mount, volume.path, subpath)
        propagation = mount.get("mountPropagation") or "None"
        if propagation not in _PROPAGATIONS:
            raise ConfigError(f"invalid MountPropagation mode: {quoted(propagation)}")
        rro = self._recursive_read_only(mount)
        read_only = bool(mount.get("readOnly")) or volume.read_only
        path = _absolute(mount["mountPath"])
        own = ContainerMount(name, Mount(path, place, read_only, propagation), rro)
        node_path = "/".join(part for part in (volume.host_path, subpath) if part)
        nested = self._root.nested(node_path) if volume.host_path else []
        return [
            own,
            *(
                ContainerMount(name, Mount(f"{path.rstrip('/')}/{relative}", inner, read_only), rro)
                for relative, inner in nested
            ),
        ]

    def _place(self, container: Object, mount: Object, volume: Path, subpath: str) -> Path:
        if not subpath:
            return volume
        what = f"subPath for volumeMount {quoted(mount['name'])} of container {quoted(container['name'])}"
        try:
            if not (volume / subpath).exists():
                subpaths.make_safely(volume, subpath, subpaths.mode_of(volume))
        except (subpaths.OutsideError, OSError):
            # The reason would say something about the node's files.
            text = what.replace("subPath", "subPath directory", 1)
            raise ConfigError(f"failed to create {text}") from None
        try:
            return subpaths.find_safely(volume, subpath)
        except (subpaths.OutsideError, OSError):
            raise ConfigError(f"failed to prepare {what}") from None

    def _image_place(self, volume: MountedVolume, view: PodView, subpath: str) -> Path:
        root = (view.images or {}).get(volume.name)
        if root is None:
            raise ConfigError(f"image volume {quoted(volume.name)} is not supported by the runtime")
        if not subpath:
            return root
        try:
            return subpaths.find_safely(root, subpath)
        except (subpaths.OutsideError, OSError):
            raise ConfigError(f"image volume {quoted(volume.name)} has no path {quoted(subpath)}") from None

    def _recursive_read_only(self, mount: Object) -> bool:
        mode = mount.get("recursiveReadOnly") or "Disabled"
        if mode == "Disabled":
            return False
        asked = f"volume {quoted(mount['name'])} requested recursive read-only mode, but it is not"
        problem = ""
        propagation = mount.get("mountPropagation") or "None"
        if not mount.get("readOnly"):
            problem = f"{asked} read-only"
        elif propagation != "None":
            problem = f"{asked} compatible with propagation {quoted(propagation)}"
        elif mode == "Enabled" and not self._supports_rro:
            problem = f"{asked} supported by the runtime"
        elif mode not in ("Enabled", "IfPossible"):
            problem = f"unknown recursive read-only mode {quoted(mode)}"
        if problem:
            raise ConfigError(f"failed to resolve recursive read-only mode: {problem}")
        if self._supports_rro and not self._features.recursive_read_only:
            gate = quoted("RecursiveReadOnlyMounts")
            raise ConfigError(f"recursive read-only mount needs feature gate {gate} to be enabled")
        return self._supports_rro

    def _hosts_mount(self, pod: Object, view: PodView) -> ContainerMount:
        file = self._directories.hosts_file(pod_spec.uid_of(pod))
        hostname, domain = view.hostname
        try:
            content = hosts_file.hosts_content(pod, view.ips, hostname, domain)
            self._files.make_directories(file.parent, _CONTAINER_DIRECTORY_MODE)
            self._files.write(file, content, _HOSTS_MODE)
        except OSError as error:
            raise ConfigError(go_error("open", self._directories.node_path(file), error)) from None
        return ContainerMount("k8s-managed-etc-hosts", Mount(hosts_file.CONTAINER_PATH, file))


def _subpath(mount: Object, env: Mapping[str, str]) -> str:
    """The subpath with its variables expanded. Raises ConfigError."""
    subpath = mount.get("subPath") or ""
    if expression := mount.get("subPathExpr"):
        subpath = _expanded(expression, env)
    if subpath.startswith("/"):
        raise ConfigError(f"error SubPath `{subpath}` must not be an absolute path")
    if ".." in subpath.split("/"):
        raise ConfigError(f"unable to provision SubPath `{subpath}`: must not contain '..'")
    return subpath


class _Missing(dict[str, str]):
    """Variables that notes which of those asked for have no value."""

    def __init__(self, env: Mapping[str, str]) -> None:
        super().__init__(env)
        self.names: set[str] = set()

    def get(self, name: str, default: str | None = None) -> str:  # type: ignore[override]
        value = super().get(name, "")
        if not value:
            self.names.add(name)
        return value


def _expanded(expression: str, env: Mapping[str, str]) -> str:
    known = _Missing(env)
    text = expanded(expression, known)
    if known.names:
        raise ConfigError(f"missing value for {', '.join(sorted(known.names))}")
    return text


def _absolute(path: str) -> str:
    return path if path.startswith("/") else f"/{path}"
