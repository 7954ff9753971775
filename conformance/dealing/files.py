"""Finds the files that cells read while they run: a worker on another machine needs them, too."""

from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path

from kubeskew.conformance.chainsaw.expressions import expression
from kubeskew.conformance.chainsaw.files import named_files
from kubeskew.conformance.scenario import Cell, Scenario

_PROGRAMS = ("script", "command")  # which run in the scenario's folder


def files_of(cells: Sequence[Cell]) -> dict[str, str]:
    """Returns the files that cells name, by absolute path, with the SHA-256 of each.

    Of those that run programs the scenario's own is one of them, for the folder that it is in. A name that an
    expression gives is known only when it is read.
    """
    scenarios = {cell.scenario.source: cell.scenario for cell in cells if cell.scenario.source}
    paths = {str(path.absolute()): path for each in scenarios.values() for path in _named(each)}
    return {name: sha256(path.read_bytes()).hexdigest() for name, path in sorted(paths.items())}


def _named(scenario: Scenario) -> Iterator[Path]:
    for step in scenario.steps:
        for operation in step.all_operations():
            name = operation.body.get("file")
            if operation.kind in _PROGRAMS:
                yield Path(scenario.source)
            elif operation.kind != "kubelet" and isinstance(name, str) and expression(name) is None:
                yield from named_files(operation.where, name)
