"""Writes the CDI specs of this project's drivers, whose devices are environment variables."""

from collections.abc import Mapping
from pathlib import Path

import orjson

from kubeskew.kubelet.files import UNJOURNALLED, StateFiles

_VERSION = "0.5.0"  # device names may begin with a digit


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
    files.write(path, orjson.dumps(spec, option=orjson.OPT_INDENT_2))
