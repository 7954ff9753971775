"""Containers without namespaces: a copy of the image, links for mounts, and paths rewritten to both.

A program sees the machine's files. What it is given (its path, working directory, arguments and variables)
leads to the copy and to the pod's volumes; what it looks for by itself does not.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kubeskew.kubelet.containers.host.root_file_system import SetupError, copy_tree

_TEMPORARY = "tmp"


def rewrite(spec: dict[str, Any]) -> None:
    """Makes paths of the container in its order paths of the machine."""
    root = Path(spec["layer"]) / "root"

    spec["argv"] = rewritten(spec, spec["argv"])
    names = [*spec["env"]]
    spec["env"] = dict(zip(names, rewritten(spec, [*spec["env"].values()]), strict=True))
    env, lower = spec["env"], Path(spec["lower"])
    env["PATH"] = ":".join(
        _in_root(root, directory) for directory in env.get("PATH", "").split(":") if directory
    )
    if env.get("HOME", "").startswith("/"):
        env["HOME"] = _in_root(root, env["HOME"])
    env.setdefault("TMPDIR", str(root / _TEMPORARY))
    program = spec["argv"][0]
    if program.startswith("/") and os.path.lexists(lower / program.lstrip("/")):
        spec["argv"] = [_in_root(root, program), *spec["argv"][1:]]
    (cwd,) = rewritten(spec, [spec["cwd"]])
    spec["cwd"] = cwd if cwd != spec["cwd"] else _in_root(root, cwd)


def rewritten(spec: dict[str, Any], words: Sequence[str]) -> list[str]:
    """Words with the paths of mounts replaced by those of their sources."""
    mounts = {mount["target"].rstrip("/"): mount["source"] for mount in spec["mounts"]}
    if not mounts:
        return [*words]
    targets = "|".join(re.escape(target) for target in sorted(mounts, key=len, reverse=True))
    pattern = re.compile(rf"(?<![\w./-])({targets})(?![\w.-])")
    return [pattern.sub(lambda found: mounts[found[1]], word) for word in words]


def build(spec: dict[str, Any]) -> None:
    """Makes the copy. Raises SetupError."""
    root = Path(spec["layer"]) / "root"
    copy_tree(Path(spec["lower"]), root)
    (root / _TEMPORARY).mkdir(exist_ok=True)
    if _is_within(Path(spec["cwd"]), root):
        Path(spec["cwd"]).mkdir(parents=True, exist_ok=True)
    for mount in sorted(spec["mounts"], key=lambda mount: mount["target"].count("/")):
        _link(root, mount["target"], mount["source"])


def _link(root: Path, target: str, source: str) -> None:
    path = root / target.strip("/")
    try:
        if not _is_within(path.parent, root):
            return  # within another mount, or by a link of the image
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink() or path.is_file():
            path.unlink()
        elif path.is_dir():
            path.rmdir()
        path.symlink_to(source)
    except OSError as error:
        raise SetupError(f'error mounting "{source}" to rootfs at "{target}": {error.strerror}') from error


def _is_within(path: Path, root: Path) -> bool:
    return path.resolve().is_relative_to(root.resolve())


def _in_root(root: Path, path: str) -> str:
    return str(root / path.strip("/")) if path.startswith("/") else path
