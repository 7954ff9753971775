"""CDI: specs that drivers write into a node's directory, and what the runtime makes of the IDs that name
them.

https://github.com/cncf-tags/container-device-interface, SPEC.md 0.8: `<vendor>/<class>=<device>`. Of a
device's container edits only the environment has a meaning for a fake container.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from kubelet.devices import InjectionError
from kubelet.files import write_atomically

Object = dict[str, Any]

VERSION = "0.3.0"


def write_spec(path: Path, kind: str, devices: Mapping[str, Mapping[str, str]]) -> None:
    """A spec file for the devices of `kind` (`vendor/class`): name → environment."""
    entries = [
        {"name": name, "containerEdits": {"env": [f"{key}={value}" for key, value in env.items()]}}
        for name, env in devices.items()
    ]
    spec = {"cdiVersion": VERSION, "kind": kind, "devices": entries}
    write_atomically(path, orjson.dumps(spec, option=orjson.OPT_INDENT_2))


def environment(directory: Path, ids: Sequence[str]) -> dict[str, str]:
    """The variables that the devices ask for; raises InjectionError as containerd does for unknown ones."""
    if not ids:
        return {}
    known = dict(_devices(directory))
    missing = [cdi_id for cdi_id in ids if cdi_id not in known]
    if missing:
        raise InjectionError(
            "failed to create containerd container: CDI device injection failed: "
            f"unresolvable CDI devices {', '.join(missing)}"
        )
    env: dict[str, str] = {}
    for cdi_id in ids:
        for variable in (known[cdi_id].get("containerEdits") or {}).get("env") or []:
            name, _, value = variable.partition("=")
            env[name] = value
    return env


def _devices(directory: Path) -> Iterable[tuple[str, Object]]:
    for path in sorted(directory.glob("*.json")):
        try:
            spec = orjson.loads(path.read_bytes())
            yield from [(f"{spec['kind']}={device['name']}", device) for device in spec["devices"]]
        except (orjson.JSONDecodeError, KeyError, TypeError, FileNotFoundError):
            continue  # a broken spec takes only its own devices away
