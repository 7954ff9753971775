"""Returns what the files of a cluster's nodes were at a revision of its log: checkpoints, CDI specs, the
state of runtimes, drivers' records.

Kubelets and drivers journal each change with the newest revision that they had seen (`kubelet/journal/`). So
the files at a revision rest on no later event, and whatever was written to the log up to it rests on files
that are among them. It works beside running kubelets, and over what killed ones have left.
"""

from contextlib import suppress
from pathlib import Path

from kubeskew.cluster.failures import UserError
from kubeskew.cluster.state import StateDir
from kubeskew.kubelet.files import TEMPORARY
from kubeskew.kubelet.journal import reading
from kubeskew.kubelet.journal.segments import Files
from kubeskew.kubelet.node.layout import NodeLayout


def kubelet_files_at(directory: StateDir, revision: int) -> dict[str, Files]:
    """Returns by node the content of its files, by their path below the node's directory.

    The path of a directory that is empty ends with a slash. Raises UserError if a node's journal, whose size
    is bounded, does not reach back to the revision.
    """
    try:
        return {node.name: reading.node_files_at(node, revision) for node in _nodes(directory)}
    except reading.FilesForgottenError as error:
        raise UserError(str(error)) from error


def kubelet_files_now(directory: StateDir) -> dict[str, dict[str, bytes]]:
    """Returns by node the content of the files that its kubelet has, by their path below the kubelet's
    directory; nodes without any are left out."""
    found = {}
    for node in _nodes(directory):
        root = NodeLayout.under(node.parent, node.name).kubelet
        files = {}
        for path in sorted(root.rglob("*")):
            if path.is_file() and path.suffix != TEMPORARY:
                with suppress(FileNotFoundError):  # a kubelet has removed it since
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
        reading.restore_node(node, revision, target.kubelet_root() / node.name)


def _nodes(directory: StateDir) -> list[Path]:
    root = directory.kubelet_root()
    return sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []
