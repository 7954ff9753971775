"""Finds the mount points that containers have within a volume, which must exist before it is read-only.

Source: pkg/volume/util/nested_volumes.go, 1.36.
"""

import posixpath

from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.containers.environment import ConfigError


def nested_mount_points(name: str, pod: Object) -> list[str]:
    """Paths relative to the volume's directory, without those below others. Raises ConfigError."""
    found: list[str] = []
    for container in pod_spec.all_containers(pod):
        mounts = [
            (mount["name"], posixpath.normpath(mount["mountPath"]))
            for mount in container.get("volumeMounts") or ()
        ]
        paths = sorted(path for _, path in mounts)
        for own in (path for mounted, path in mounts if mounted == name):
            if own.startswith("../"):
                raise ConfigError(f"invalid container mount point {own}")
            nested: list[str] = []
            for path in paths:
                if path.startswith(f"{own}/") and not any(path.startswith(above) for above in nested):
                    nested.append(f"{path}/")
                    found.append(path[len(own) + 1 :])
    return found
