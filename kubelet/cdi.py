"""The Container Device Interface: drivers' spec files, and how their devices change a container.

A spec file is read and checked as the runtime's library does (container-device-interface 1.0); a file that
breaks any rule is ignored. Devices are found by their qualified names `vendor/class=device`. As in
pkg/cdi/cache.go, a name in two specs of the directory is not usable. Device files and mounts need not exist
on this machine, because a fake node's hardware does not; hooks are not run. The specs of this project's
drivers have environment variables as devices.

Source: https://github.com/cncf-tags/container-device-interface, SPEC.md and pkg/cdi.
"""

import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import orjson
import yaml

from kubeskew.apimachinery import yaml_files
from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.device_managers import (
    CDIDevice,
    ContainerDevices,
    DeviceNode,
    HostMount,
    InjectionError,
)
from kubeskew.kubelet.files import UNJOURNALLED, StateFiles

_VERSIONS = ("0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")
_VENDOR = re.compile(r"[A-Za-z](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?")
_CLASS = _VENDOR
_DEVICE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.:-]*[A-Za-z0-9])?")
_LISTS: Mapping[str, frozenset[str]] = {
    "deviceNodes": frozenset(
        {"path", "hostPath", "type", "major", "minor", "fileMode", "permissions", "uid", "gid"}
    ),
    "netDevices": frozenset({"hostInterfaceName", "name"}),
    "hooks": frozenset({"hookName", "path", "args", "env", "timeout"}),
    "mounts": frozenset({"hostPath", "containerPath", "options", "type"}),
}
_RDT = frozenset(
    {"closID", "l3CacheSchema", "memBwSchema", "enableCMT", "enableMBM", "schemata", "enableMonitoring"}
)
_EDITS = frozenset({*_LISTS, "env", "intelRdt", "additionalGids"})
_HOOKS = frozenset(
    {"prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"}
)
log = logging.getLogger(__name__)


_SUFFIXES = frozenset({".json", ".yaml"})
_VERSION = "0.5.0"  # device names may begin with a digit


class SpecError(ValueError):
    """A file is not a valid spec."""


def read_spec(path: Path) -> Object:
    """Raises SpecError."""
    try:
        content = path.read_bytes()
        parsed = orjson.loads(content) if path.suffix == ".json" else yaml_files.load(content)
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise SpecError(f'failed to parse CDI Spec "{path}": {error}') from error
    if not isinstance(parsed, dict):
        raise SpecError(f'failed to parse CDI Spec "{path}", no Spec data')
    try:
        check_spec(parsed)
    except (SpecError, TypeError, AttributeError, KeyError) as error:
        raise SpecError(f'invalid CDI Spec "{path}": {error}') from error
    return parsed


def check_spec(spec: Object) -> None:
    """Raises SpecError, or what Python raises for a value of a wrong type."""
    _known(spec, {"cdiVersion", "kind", "annotations", "devices", "containerEdits"})
    version = str(spec.get("cdiVersion") or "").removeprefix("v")
    if version not in _VERSIONS:
        raise SpecError(f'the spec version "{spec.get("cdiVersion") or ""}" is invalid')
    vendor, _, kind = str(spec.get("kind") or "").partition("/")
    _matches(_VENDOR, vendor, "vendor")
    _matches(_CLASS, kind, "class")
    least = least_version(spec)
    if _VERSIONS.index(version) < _VERSIONS.index(least):
        raise SpecError(f"the spec version must be at least v{least}")
    _check_edits(spec.get("containerEdits") or {})
    devices = spec.get("devices") or []
    if not devices:
        raise SpecError("invalid spec, no devices")
    for device in devices:
        _known(device, {"name", "annotations", "containerEdits"})
        _matches(_DEVICE, device.get("name") or "", "device name")
        if not any((device.get("containerEdits") or {}).values()):
            raise SpecError(f'invalid device "{device["name"]}", empty device edits')
        _check_edits(device["containerEdits"])
    names = [device["name"] for device in devices]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SpecError(f'invalid spec, multiple device "{twice}"')


def least_version(spec: Object) -> str:
    """Finds the oldest version that has all that the spec uses (pkg/cdi/version.go)."""
    edits = [*_all_edits(spec)]
    nodes = [node for edit in edits for node in edit.get("deviceNodes") or []]
    names = [device.get("name") or "" for device in spec.get("devices") or []]
    rules: list[tuple[str, Callable[[], bool]]] = [
        ("1.1.0", lambda: any(edit.get("netDevices") for edit in edits) or any(map(_monitors, edits))),
        ("0.7.0", lambda: any("intelRdt" in edit or edit.get("additionalGids") for edit in edits)),
        ("0.6.0", lambda: _annotated(spec) or "." in str(spec.get("kind")).partition("/")[2]),
        ("0.5.0", lambda: any(n[:1].isdigit() for n in names) or any(n.get("hostPath") for n in nodes)),
        ("0.4.0", lambda: any(m.get("type") for edit in edits for m in edit.get("mounts") or [])),
    ]
    return next((version for version, uses in rules if uses()), "0.3.0")


def _monitors(edits: Object) -> bool:
    rdt = edits.get("intelRdt") or {}
    return "schemata" in rdt or bool(rdt.get("enableMonitoring"))


def _annotated(spec: Object) -> bool:
    return bool(
        spec.get("annotations") or any(device.get("annotations") for device in spec.get("devices") or [])
    )


def _all_edits(spec: Object) -> Iterator[Object]:
    yield spec.get("containerEdits") or {}
    for device in spec.get("devices") or []:
        yield device.get("containerEdits") or {}


def _check_edits(edits: Object) -> None:
    _known(edits, _EDITS)
    for field, known in _LISTS.items():
        for item in edits.get(field) or []:
            _known(item, known)
    _known(edits.get("intelRdt") or {}, _RDT)
    for variable in edits.get("env") or []:
        if "=" not in variable or variable.startswith("="):
            raise SpecError(f'invalid environment variable "{variable}"')
    for node in edits.get("deviceNodes") or []:
        _check_node(node)
    for mount in edits.get("mounts") or []:
        if not mount.get("hostPath"):
            raise SpecError("invalid mount, empty host path")
        if not mount.get("containerPath"):
            raise SpecError("invalid mount, empty container path")
    for hook in edits.get("hooks") or []:
        if hook.get("hookName") not in _HOOKS:
            raise SpecError(f'invalid hook name "{hook.get("hookName") or ""}"')
        if not hook.get("path"):
            raise SpecError(f'invalid hook "{hook["hookName"]}" with empty path')


def _check_node(node: Object) -> None:
    path = node.get("path") or ""
    if not path:
        raise SpecError("invalid (empty) device path")
    if (node.get("type") or "c") not in {"b", "c", "u", "p"}:
        raise SpecError(f'device "{path}": invalid type "{node["type"]}"')
    if set(node.get("permissions") or "") - set("rwm"):
        raise SpecError(f'device "{path}": invalid permissions "{node["permissions"]}"')


def _known(value: Object, fields: Collection[str]) -> None:
    """Raises SpecError for a field that the format does not have: one of them makes the file invalid."""
    unknown = sorted(set(value) - set(fields))
    if unknown:
        raise SpecError(f'error unmarshaling JSON: while decoding JSON: json: unknown field "{unknown[0]}"')


def _matches(pattern: re.Pattern[str], text: str, what: str) -> None:
    if pattern.fullmatch(text) is None:
        raise SpecError(f'invalid {what} "{text}"')


def injected(directory: Path, names: Sequence[str]) -> ContainerDevices:
    """Merges the edits of the devices and of their specs, each spec once. Raises InjectionError in
    containerd's words."""
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
    """Maps a qualified name to (spec, device); a name in two specs is left out."""
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
            mounts[path] = HostMount(
                path, mount["hostPath"], "ro" in (mount.get("options") or []), must_exist=True
            )
    return ContainerDevices(env=env, nodes=[*nodes.values()], mounts=[*mounts.values()])


def write_spec(
    path: Path,
    kind: str,
    devices: Mapping[str, Mapping[str, str]],
    files: StateFiles = UNJOURNALLED,
) -> None:
    """Writes a spec file for the devices of `kind` (`vendor/class`): name → environment."""
    entries = [
        {"name": name, "containerEdits": {"env": [f"{key}={value}" for key, value in env.items()]}}
        for name, env in devices.items()
    ]
    spec = {"cdiVersion": _VERSION, "kind": kind, "devices": entries}
    files.write(path, orjson.dumps(spec, option=orjson.OPT_INDENT_2), synced=True)
