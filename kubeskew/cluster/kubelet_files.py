"""The files of a cluster's kubelets at a revision of its log, and an operator's changes on a node.

They are checkpoints, CDI specs, the state of runtimes, and drivers' records. Kubelets and drivers journal
each change with the newest revision that they had seen (`kubelet/journal.py`). So the files at a revision
depend on no later event, and all writes to the log up to it depend only on files that are among them. They
can be read while kubelets run, and after kubelets were killed.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from kubeskew.cluster.failures import UserError
from kubeskew.cluster.state import State, StateDir
from kubeskew.kubelet import journal
from kubeskew.kubelet.files import TEMPORARY
from kubeskew.kubelet.journal import Files, JournalledFiles
from kubeskew.kubelet.node import config as node_settings
from kubeskew.kubelet.node.config import NodeLayout


def kubelet_files_at(directory: StateDir, revision: int) -> dict[str, Files]:
    """Contents are by node, then by path below the node's directory.

    Paths of empty directories end with a slash. Raises UserError if a node's journal, whose size is bounded,
    does not reach back to the revision.
    """
    try:
        return {node.name: journal.node_files_at(node, revision) for node in _nodes(directory)}
    except journal.FilesForgottenError as error:
        raise UserError(str(error)) from error


def kubelet_files_now(directory: StateDir) -> dict[str, dict[str, bytes]]:
    """Contents are by node, then by path below the kubelet's directory; nodes without files are left out."""
    found = {}
    for node in _nodes(directory):
        root = NodeLayout.under(node.parent, node.name).kubelet
        files = {}
        for path in sorted(root.rglob("*")):
            if path.is_file() and path.suffix != TEMPORARY:
                with suppress(FileNotFoundError):  # a kubelet has removed it meanwhile
                    files[path.relative_to(root).as_posix()] = path.read_bytes()
        if files:
            found[node.name] = files
    return found


def restore_kubelet_files(directory: StateDir, revision: int, target: StateDir) -> None:
    """Writes the files of all nodes as they were, each with its journal so far, to another state directory.

    `directory` stays as it is. Raises UserError as `kubelet_files_at`, before anything is written.
    """
    kubelet_files_at(directory, revision)
    for node in _nodes(directory):
        journal.restore_node(node, revision, target.kubelet_root() / node.name)


def _nodes(directory: StateDir) -> list[Path]:
    root = directory.kubelet_root()
    # The images of containers, which all nodes share, are in a directory whose name begins with a dot.
    return sorted(path for path in root.glob("[!.]*") if path.is_dir())


def kubelet_file(directory: StateDir, state: State, node: str, name: str) -> Path:
    """`name` is relative to the kubelet's root directory. Raises UserError."""
    if node not in state.nodes:
        raise UserError(f"there is no node {node}; there are {', '.join(state.nodes)}")
    root = NodeLayout.under(directory.kubelet_root(), node).kubelet
    path = root / name
    if not path.resolve().is_relative_to(root.resolve()):
        raise UserError(f"{name} is no file below the kubelet's root directory")
    return path


def remove_kubelet_files(directory: StateDir, state: State, node: str, names: Sequence[str]) -> None:
    """Removes all of the files or none; the next kubelet starts without them. Raises UserError."""
    paths = [kubelet_file(directory, state, node, name) for name in names]
    for path, name in zip(paths, names, strict=True):
        if not path.is_file():
            there = sorted(each.name for each in path.parent.glob("*") if each.is_file())
            raise UserError(f"kubelet/{node} has no file {name}; it has {', '.join(there) or 'none'}")
    files = JournalledFiles(NodeLayout.under(directory.kubelet_root(), node).node, lambda: 0)
    for path in paths:
        files.remove(path)


def configure_kubelet(directory: StateDir, state: State, node: str, settings: Mapping[str, Any]) -> None:
    """Settings apply from the kubelet's next start. Raises UserError."""
    if node not in state.nodes:
        raise UserError(f"there is no node {node}; there are {', '.join(state.nodes)}")
    kept = {key: state.nodes[node][key] for key in node_settings.SETTINGS_KEYS if key in state.nodes[node]}
    try:
        changed = node_settings.parse_settings({**kept, **settings}, f"kubelet/{node}")
    except node_settings.SettingsError as error:
        raise UserError(str(error)) from error
    state.nodes[node] = {**state.nodes[node], **changed}
    directory.save(state)
