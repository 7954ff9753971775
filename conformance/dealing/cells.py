"""Gives cells to workers, in groups that stay together, and gathers what came of them."""

from collections.abc import Sequence

from kubeskew.conformance.dealing.workers import DiedError, LostError, Pool, Terms, Work
from kubeskew.conformance.results import CellResult
from kubeskew.conformance.resuming import digest_of
from kubeskew.conformance.runner import Moment
from kubeskew.conformance.running import Audience, compare, note_end
from kubeskew.conformance.scenario import Cell

Group = Sequence[Cell]

_POLL_SECONDS = 0.5
_TRIALS = 2  # of a group whose process ends by itself


def deal_cells(
    groups: Sequence[Group],
    pool: Pool,
    work: Work[Group, list[CellResult]],
    audience: Audience,
    done: list[CellResult],
) -> list[CellResult]:
    """Has workers of a pool run groups of cells; results in the order of the groups.

    Those that are ready are in `done`, too, if the run is interrupted. A group whose process has ended by
    itself is given to another, once; then, and where the work itself fails, its cells have the error.
    """
    cells = {cell.name: cell for group in groups for cell in group}
    trials: dict[str, int] = {}  # by the first cell of a group

    def hear(name: str, moment: Moment) -> None:
        if name in cells:
            audience.hear(cells[name], moment)

    def note(results: Sequence[CellResult]) -> None:
        for result in results:
            note_end(result, digest_of(cells[result.name].scenario), audience)
            done.append(result)
            found[result.name] = result

    found: dict[str, CellResult] = {}
    terms = Terms(patience=float("inf"), jobs=1 << 31, label=_names)
    waiting = sorted(groups, key=len, reverse=True)  # so that in the end nobody is left with a large one
    with pool.workers(work, terms, hear, audience.say) as workers:
        while waiting or workers.busy:
            while waiting and workers.free:
                workers.give(waiting.pop(0))
            for group, answer in workers.ended(_POLL_SECONDS):
                if not isinstance(answer, LostError):
                    note(answer)
                    continue
                first = group[0].name
                trials[first] = trials.get(first, 0) + 1
                if isinstance(answer, DiedError) and trials[first] < _TRIALS:
                    audience.say(f"{_names(group)}: {answer}; to be run again")
                    waiting.insert(0, group)
                else:
                    note([_lost(cell, answer) for cell in group])
    ordered = [found[name] for name in cells]
    compare(ordered)
    return ordered


def _names(group: Group) -> str:
    others = len(group) - 1
    return group[0].name + (f" and {others} others that begin alike" if others else "")


def _lost(cell: Cell, error: LostError) -> CellResult:
    """Returns the result of a cell that was not run to its end."""
    why = str(error).strip().splitlines()[-1]
    return CellResult(cell.name, cell.scenario.name, cell.parameters, error=why)
