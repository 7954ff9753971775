"""The journal of kubelet files in whole cells: it has every file that kubelets and drivers wrote."""

from pathlib import Path

import pytest

from kubeskew.cluster.cluster import Cluster
from kubeskew.cluster.kubelet_files import kubelet_files_at, restore_kubelet_files
from kubeskew.cluster.state import StateDir
from kubeskew.conformance import matrix
from kubeskew.simulation.runs import simulate

CELLS = ["kep-5004/upgrade-downgrade/explicit/1.35-1.36-1.35", "classic/claims/1.29"]


def written(root: Path) -> dict[str, dict[str, bytes]]:
    """Returns by node the files below its directory, without the journal."""
    return {
        node.name: {
            path.relative_to(node).as_posix(): path.read_bytes()
            for path in sorted(node.rglob("*"))
            if path.is_file() and path.relative_to(node).parts[0] != "journal"
        }
        for node in sorted(root.iterdir())
    }


def journalled(directory: StateDir, revision: int) -> dict[str, dict[str, bytes]]:
    """Returns the same of a revision, from the journals."""
    nodes = kubelet_files_at(directory, revision)
    return {
        node: {name: content for name, content in files.items() if not name.endswith("/")}
        for node, files in nodes.items()
    }


@pytest.mark.parametrize("name", CELLS)
def test_the_journal_has_every_file_of_a_cell(name, monkeypatch, tmp_path):
    """At the end of a cell the journals say what each node's files hold, and earlier revisions can be
    restored."""
    (cell,) = matrix.of_scenarios(("/".join(name.split("/")[:2]),)).cells((name,))
    counts: list[int] = []

    down = Cluster.down

    async def look(cluster: Cluster) -> None:
        await down(cluster)
        directory = cluster.directory
        now = written(directory.kubelet_root())
        assert journalled(directory, 10**9) == now
        assert any(path.startswith("runtime/") for files in now.values() for path in files)
        for revision in range(0, 1000, 100):
            target = StateDir(tmp_path / str(revision))
            restore_kubelet_files(directory, revision, target)
            assert written(target.kubelet_root()) == journalled(directory, revision)
            counts.append(sum(map(len, journalled(directory, revision).values())))

    monkeypatch.setattr(Cluster, "down", look)
    simulate(cell, 0, lambda _: None)
    assert counts[0] < max(counts)
