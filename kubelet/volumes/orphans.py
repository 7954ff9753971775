"""Removes the directories of pods that the node no longer has, such as those that went while no kubelet ran.

Volumes are only removed empty, as upstream does: a directory with content may be somebody's data. What a
kubelet's own plugins have made (all but directories of the node) is taken down first.

Source: pkg/kubelet/kubelet_volumes.go (cleanupOrphanedPodDirs), 1.36.
"""

import logging
import stat
from collections.abc import Collection, Sequence
from pathlib import Path

from kubeskew.kubelet.volumes.files import VolumeFiles, go_error
from kubeskew.kubelet.volumes.layout import PodDirectories
from kubeskew.kubelet.volumes.memory import MemoryDirectories

log = logging.getLogger(__name__)

# The plugins whose files are the kubelet's own, so that it may remove them.
_OWN = (
    "kubernetes.io~empty-dir",
    "kubernetes.io~configmap",
    "kubernetes.io~secret",
    "kubernetes.io~downward-api",
    "kubernetes.io~projected",
)


class OrphanCleaner:
    def __init__(
        self,
        directories: PodDirectories,
        files: VolumeFiles,
        memory: MemoryDirectories,
        *,
        names_subpaths_alike: bool = False,
    ) -> None:
        """`names_subpaths_alike`: errors about subpaths are worded as those about volumes (until 1.35)."""
        self._directories = directories
        self._files = files
        self._memory = memory
        self._names_alike = names_subpaths_alike

    def find(self, known: Collection[str]) -> list[str]:
        """The UIDs of pods that have a directory and are not known."""
        return [uid for uid in self._files.names(self._directories.pods) if uid not in known]

    def remove(self, uids: Sequence[str]) -> list[str]:
        """Removes the directories of pods. The texts are what a kubelet's log says of those that it could
        not remove."""
        errors: list[str] = []
        for uid in uids:
            errors += self._clean(uid)
        if errors:
            log.error(
                "%s; there were %d errors about directories of pods that are gone", errors[0], len(errors)
            )
        return errors

    def _clean(self, uid: str) -> list[str]:
        found = f'orphaned pod "{uid}" found, but'
        self._take_down(uid)
        try:
            errors = self._remove_volumes(uid, found)
        except OSError as error:
            what = f"could not read directory {self._text(Path(str(error.filename)))}"
            return [f"{found} error occurred during reading volume dir from disk: {what}: {_reason(error)}"]
        if errors:
            return errors
        pod = self._directories.pod(uid)
        for name in self._files.names(pod):
            try:
                self._files.remove_tree(pod / name)
            except OSError as error:
                what = f'{found} error occurred when trying to remove subdir "{self._text(pod / name)}"'
                errors.append(f"{what}: {self._words('unlinkat', pod / name, error)}")
        try:
            self._files.remove_directory(pod)
        except OSError as error:
            what = f"{found} error occurred when trying to remove the pod directory"
            errors.append(f"{what}: {_reason(error)}")
        return errors

    def _take_down(self, uid: str) -> None:
        try:
            self._memory.remove(uid)
        except OSError as error:
            log.error("memory of pod %s: %s", uid, error)
        for plugin in _OWN:
            directory = self._directories.volumes(uid) / plugin
            for name in self._files.names(directory):
                path = directory / name
                try:
                    self._files.remove_tree(path)
                except OSError as error:
                    log.error("%s", self._words("unlinkat", path, error))

    def _remove_volumes(self, uid: str, found: str) -> list[str]:
        errors: list[str] = []
        volumes = self._directories.volumes(uid)
        for plugin in self._files.names(volumes):
            for name in self._files.names(volumes / plugin):
                path = volumes / plugin / name
                try:
                    self._files.remove_directory(path)
                except OSError as error:
                    what = f"failed to rmdir() volume at path {self._text(path)}"
                    errors.append(f"{found} {what}: {_reason(error)}")
        for path in self._subpaths(uid):
            try:
                self._remove_place(path)
            except OSError as error:
                verb = "rmdir()" if self._names_alike else "remove"
                what = f"failed to {verb} subpath at path {self._text(path)}"
                errors.append(f"{found} {what}: {_reason(error)}")
        if not errors and self._files.status(volumes) is not None:
            try:
                self._remove_directories(volumes)
            except OSError as error:
                what = f"{found} error occurred when trying to remove the volumes dir"
                errors.append(f"{what}: {self._words('unlinkat', volumes, error)}")
        return errors

    def _subpaths(self, uid: str) -> list[Path]:
        """volume-subpaths/VOLUME/CONTAINER/INDEX."""
        paths = [self._directories.subpaths(uid)]
        for _ in range(3):
            paths = [path / name for path in paths for name in self._files.names(path)]
        return paths

    def _remove_place(self, path: Path) -> None:
        status = self._files.status(path)
        if status is not None and stat.S_ISDIR(status.st_mode):
            self._files.remove_directory(path)
        else:
            self._files.remove(path)

    def _remove_directories(self, directory: Path) -> None:
        """Fails if there is any file."""
        for name in self._files.names(directory):
            self._remove_directories(directory / name)
        self._files.remove_directory(directory)

    def _text(self, path: Path) -> str:
        return self._directories.node_path(path)

    def _words(self, operation: str, path: Path, error: OSError) -> str:
        return go_error(operation, self._text(path), error)


def _reason(error: OSError) -> str:
    return go_error("", "", error).removeprefix(" : ")
