"""Finds devices by their qualified names `vendor/class=device`, and what they change in a container.

As in pkg/cdi/cache.go, a name in two specs of the directory is not usable. Device files and mounts need not
exist on this machine, because a fake node's hardware does not; hooks are not run.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.cdi.specs import SpecError, read_spec
from kubeskew.kubelet.device_managers import (
    CDIDevice,
    ContainerDevices,
    DeviceNode,
    HostMount,
    InjectionError,
)

log = logging.getLogger(__name__)


_SUFFIXES = frozenset({".json", ".yaml"})


def injected(directory: Path, names: Sequence[str]) -> ContainerDevices:
    """Returns what the devices add to a container. Raises InjectionError in containerd's words."""
    wanted = list(dict.fromkeys(names))
    if not wanted:
        return ContainerDevices()
    known = _devices(directory)
    missing = [name for name in wanted if name not in known]
    if missing:
        raise InjectionError(
            "failed to create containerd container: CDI device injection failed: "
            f"unresolvable CDI devices {', '.join(missing)}"
        )
    edits: list[Object] = []
    specs: list[Object] = []
    for name in wanted:
        spec, device = known[name]
        if all(spec is not other for other in specs):
            specs.append(spec)
            edits.append(spec.get("containerEdits") or {})
        edits.append(device["containerEdits"])
    return replace(_merged(edits), cdi=[_resolved(name, *known[name]) for name in wanted])


def _resolved(name: str, spec: Object, device: Object) -> CDIDevice:
    alone = _merged([spec.get("containerEdits") or {}, device["containerEdits"]])
    return CDIDevice(
        name, alone.env, [node.path for node in alone.nodes], [mount.path for mount in alone.mounts]
    )


def _devices(directory: Path) -> dict[str, tuple[Object, Object]]:
    """Returns (spec, device) by qualified name."""
    found: dict[str, tuple[Object, Object]] = {}
    conflicts: set[str] = set()
    for path in sorted(directory.glob("*")):
        if path.suffix not in _SUFFIXES or path.name.startswith("."):
            continue
        try:
            spec = read_spec(path)
        except SpecError as error:
            log.warning("%s", error)  # only its own devices are lost
            continue
        for device in spec["devices"]:
            name = f"{spec['kind']}={device['name']}"
            if name in found:
                log.warning('conflicting device "%s" (CDI Spec %s)', name, path)
                conflicts.add(name)
            found[name] = spec, device
    return {name: device for name, device in found.items() if name not in conflicts}


def _merged(edits: Iterable[Object]) -> ContainerDevices:
    """Merges edits; later ones win where both set a variable, a device file or a mount."""
    env: dict[str, str] = {}
    nodes: dict[str, DeviceNode] = {}
    mounts: dict[str, HostMount] = {}
    for edit in edits:
        for variable in edit.get("env") or []:
            name, _, value = variable.partition("=")
            env[name] = value
        for node in edit.get("deviceNodes") or []:
            path, permissions = node["path"], node.get("permissions") or "rwm"
            nodes[path] = DeviceNode(path, node.get("hostPath") or path, permissions)
        for mount in edit.get("mounts") or []:
            path = mount["containerPath"]
            mounts[path] = HostMount(path, mount["hostPath"], "ro" in (mount.get("options") or []))
    return ContainerDevices(env=env, nodes=[*nodes.values()], mounts=[*mounts.values()])
