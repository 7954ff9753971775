"""Does what an operator does on a node: removes files of its kubelet, and changes the kubelet's settings."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kubeskew.cluster.failures import UserError
from kubeskew.cluster.state import State, StateDir
from kubeskew.kubelet.journal.writing import JournalledFiles
from kubeskew.kubelet.node import settings as node_settings
from kubeskew.kubelet.node.layout import NodeLayout


def kubelet_file(directory: StateDir, state: State, node: str, name: str) -> Path:
    """Returns where a file below a kubelet's root directory lies. Raises UserError."""
    if node not in state.nodes:
        raise UserError(f"there is no node {node}; there are {', '.join(state.nodes)}")
    root = NodeLayout.under(directory.kubelet_root(), node).kubelet
    path = root / name
    if not path.resolve().is_relative_to(root.resolve()):
        raise UserError(f"{name} is no file below the kubelet's root directory")
    return path


def remove_files(directory: StateDir, state: State, node: str, names: Sequence[str]) -> None:
    """Removes files of a kubelet, all or none; the next kubelet does without. Raises UserError."""
    paths = [kubelet_file(directory, state, node, name) for name in names]
    for path, name in zip(paths, names, strict=True):
        if not path.is_file():
            there = sorted(each.name for each in path.parent.glob("*") if each.is_file())
            raise UserError(f"kubelet/{node} has no file {name}; it has {', '.join(there) or 'none'}")
    files = JournalledFiles(NodeLayout.under(directory.kubelet_root(), node).node, lambda: 0)
    for path in paths:
        files.remove(path)


def configure(directory: StateDir, state: State, node: str, settings: Mapping[str, Any]) -> None:
    """Changes settings of a kubelet, which has them from its next start. Raises UserError."""
    if node not in state.nodes:
        raise UserError(f"there is no node {node}; there are {', '.join(state.nodes)}")
    kept = {key: state.nodes[node][key] for key in node_settings.KEYS if key in state.nodes[node]}
    try:
        changed = node_settings.parse({**kept, **settings}, f"kubelet/{node}")
    except node_settings.SettingsError as error:
        raise UserError(str(error)) from error
    state.nodes[node] = {**state.nodes[node], **changed}
    directory.save(state)
