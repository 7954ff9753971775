"""The file of a device plugin: on which nodes it is, with how many devices, and what is to go wrong there.

YAML or JSON, read again on SIGHUP; switches are those of drivers, as far as they make sense here
(`refusePrepare` refuses to allocate):

    revision: 3                    # optional: told back once it is in effect
    nodes:
    - name: node-1
      devicePluginsDir: /var/lib/kubelet/device-plugins
      devices: 2
      deviceName: gpu              # optional: devices are gpu-0 …; by default the resource's last part
      switches: {health: {gpu-0: Unhealthy}}
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kubeskew.kubelet.drivers.settings import DriverFileError, read_nodes
from kubeskew.kubelet.drivers.switches import Switches, parse


@dataclass(frozen=True, slots=True)
class PluginNode:
    """The plugin on one node; `directory` is the kubelet's of device plugins."""

    name: str
    directory: Path
    devices: int
    device_name: str = ""
    switches: Switches = field(default_factory=Switches)


@dataclass(frozen=True, slots=True)
class PluginFile:
    """All of the file."""

    nodes: tuple[PluginNode, ...]
    revision: int = 0


def load(path: Path) -> PluginFile:
    """Raises DriverFileError."""
    return PluginFile(*read_nodes(path, "device plugin file", parse_node))


def parse_node(entry: Any, where: str) -> PluginNode:
    """One entry of `nodes`. Raises DriverFileError."""
    if not isinstance(entry, dict) or not entry.get("name") or not entry.get("devicePluginsDir"):
        raise DriverFileError(f"{where}: an entry of `nodes` needs name and devicePluginsDir")
    try:
        given = entry.get("devices")
        devices = 1 if given is None else int(given)
        switches = parse(entry.get("switches") or {})
    except (ValueError, TypeError, AttributeError) as error:
        raise DriverFileError(f"{where}: node {entry['name']}: {error}") from error
    if devices < 0:
        raise DriverFileError(f"{where}: node {entry['name']}: devices: expected a number, found {devices}")
    return PluginNode(
        name=str(entry["name"]),
        directory=Path(entry["devicePluginsDir"]),
        devices=devices,
        device_name=str(entry.get("deviceName") or ""),
        switches=switches,
    )
