"""The files that a scenario names, which lie beside its own."""

from pathlib import Path

from kubeskew.conformance.errors import ScenarioError

_WILD = frozenset("*?[")


def folder_of(where: str) -> Path:
    """Returns the folder of the scenario that a place in it names: `FILE: spec.steps[0]`."""
    return Path(where.partition(":")[0]).parent


def named_files(where: str, name: str) -> list[Path]:
    """Returns the files of a name, which may be a pattern as of a shell, in the order of their names.

    Raises ScenarioError if there is none.
    """
    if "://" in name:
        raise ScenarioError(
            f"{where}.file: Chainsaw's files at a URL are not supported here: put {name} beside the scenario"
        )
    folder = folder_of(where)
    try:
        found = sorted(folder.glob(name)) if _WILD & {*name} else [folder / name]
    except (NotImplementedError, ValueError) as error:  # an absolute pattern, or ** beside something else
        raise ScenarioError(f"{where}.file: {name} is no pattern beside the scenario: {error}") from error
    found = [path for path in found if path.is_file()]
    if not found:
        raise ScenarioError(f"{where}.file: there is no file {folder / name}")
    return found
