"""Simulations that are forked when their cluster has started."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from kubeskew.conformance import matrix
from kubeskew.conformance.scenario import Cell
from kubeskew.simulation import runs
from kubeskew.simulation.forks import BranchError, Forks
from kubeskew.simulation.runs import simulate, simulate_alike


def alike(scenario: str, pattern: str) -> list[Cell]:
    """The cells of a scenario that begin with the same cluster."""
    (group,) = matrix.with_same_cluster(matrix.of_scenarios((scenario,)).cells((pattern,)))
    return group


@pytest.mark.parametrize(
    ("scenario", "pattern"),
    [
        # Drivers and their sockets.
        pytest.param("kep-5004/version-paths", "*/1.35-1.36-1.37-1.36/*", marks=pytest.mark.slow),
        ("kep-5004/upgrade-downgrade", "*/1.35-1.36-1.35"),
    ],
)
def test_cells_come_out_as_they_do_alone(scenario: str, pattern: str):
    """Verdict, evidence, seed and hash of the log of each cell are those of a simulation of its own."""
    cells = alike(scenario, pattern)
    together = simulate_alike(cells, 3, lambda _cell, _text: None)
    for cell, branch in zip(cells, together, strict=True):
        alone = simulate(cell, 3, lambda _: None)
        assert (branch.result, branch.log_hash, branch.seed) == (alone.result, alone.log_hash, 3)
        assert (branch.virtual_seconds, branch.failures) == (alone.virtual_seconds, alone.failures)


def test_a_driver_that_is_killed_in_a_branch_stays_away():
    """A kubelet takes the socket of a driver for the one that it knows, in a branch as alone."""
    (killing,) = matrix.of_scenarios(("known-bugs/k8s-132058",)).cells(("*/1.33",))
    (other,) = matrix.of_scenarios(("dra/exec",)).cells(("*/1.33-1.32",))
    for cells in ([killing, other], [other, killing]):
        branch = simulate_alike(cells, 0, lambda _cell, _text: None)[cells.index(killing)]
        assert branch.log_hash == simulate(killing, 0, lambda _: None).log_hash


def test_what_cells_show_has_their_names():
    """A branch shows what it does as the cell that it runs, not as the one that began."""
    cells = alike("kep-5004/version-paths", "*/1.35-1.36-1.37-1.36/*")
    names: list[str] = []
    simulate_alike(cells, 0, lambda cell, _text: names.append(cell.name))
    assert set(names) == {cells[0].name, cells[-1].name}


@pytest.mark.parametrize(
    ("end", "why"),
    [(lambda: os._exit(7), "ended by itself with status 7"), (lambda: next(iter(())), "StopIteration")],
)
def test_a_branch_that_does_not_end_is_named(
    monkeypatch: pytest.MonkeyPatch, end: Callable[[], object], why: str
):
    """A branch whose process ends, or fails, is an error of the run, not a result that is missing."""
    cells = alike("kep-5004/version-paths", "*/1.35-1.36-1.37-1.36/*")
    here, digest = os.getpid(), runs.digest

    def ends(records: runs.MemoryRecords) -> str:
        if os.getpid() != here:
            end()
        return digest(records)

    monkeypatch.setattr(runs, "digest", ends)
    with pytest.raises(BranchError, match=why):
        simulate_alike(cells, 0, lambda _cell, _text: None)


def half_an_answer(forks: Forks[bytes]) -> bytes | BranchError:
    """Shows what a branch leaves that writes a file and dies while it answers."""
    answer = forks.fork()
    if answer is None:
        Path("file").write_text("after")
        os.write(forks._answers.fileno(), (1000).to_bytes(4) + b"the beginning")
        os._exit(7)
    return answer


async def test_a_branch_that_dies_while_it_answers_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Half an answer is none: the branch is reported by how it ended, and the files are as before."""
    written = tmp_path / "file"
    written.write_text("before")
    monkeypatch.chdir(tmp_path)
    answer = half_an_answer(Forks(lambda: tempfile.mkdtemp(dir=tmp_path.parent)))
    assert str(answer) == "its process ended by itself with status 7"
    assert written.read_text() == "before"


def test_shards_keep_cells_of_one_cluster_together():
    """All shards together have each cell once, no cluster is in two of them, and they are of like size."""
    cells = matrix.of_profile("full").cells(())
    shards = [matrix.shard(cells, number, 4, alike=True) for number in range(1, 5)]
    assert sorted(cell.name for part in shards for cell in part) == sorted(cell.name for cell in cells)
    clusters = [{repr(cell.cluster()) for cell in part} for part in shards]
    assert sum(map(len, clusters)) == len(set.union(*clusters))
    assert max(map(len, shards)) - min(map(len, shards)) <= 1
