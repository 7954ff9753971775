"""Classic DRA and the previews of its drafts are rooms: who imports them is listed, and nobody else does."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCHEDULER = "kubeskew.scheduler.plugins.dynamicresources"
SHOWN = "kubeskew.cli.commands.features"  # lists the tables of features of all rooms

# A room, and the modules and folders that name it: these lines go with it. The previews build on classic DRA.
ROOMS = {
    f"{SCHEDULER}.classic": (
        f"{SCHEDULER}.generations",
        f"{SCHEDULER}.drafted",
        f"{SCHEDULER}.semantic",
        SHOWN,
    ),
    f"{SCHEDULER}.drafted": (f"{SCHEDULER}.generations",),
    f"{SCHEDULER}.semantic": (f"{SCHEDULER}.generations",),
}
COMPONENTS = [
    "apimachinery", "apiserver", "conformance", "controllers", "kubelet", "kubeskew", "scheduler",
    "simulation",
]  # fmt: skip


def modules() -> Iterator[tuple[str, Path]]:
    """Yields the name and the file of every module of the product."""
    for folder in COMPONENTS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path.resolve() == path:
                name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
                yield name if name.startswith("kubeskew") else f"kubeskew.{name}", path


def imported(path: Path) -> Iterator[str]:
    """Yields what a module imports, also within functions, as dotted names."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_in(name: str, places: tuple[str, ...]) -> bool:
    return any(name == place or name.startswith(f"{place}.") for place in places)


IMPORTS = {name: [*imported(path)] for name, path in modules()}


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_is_imported_where_it_is_listed(room: str):
    """The base, and any other component, stays as it is when a room is deleted."""
    assert any(is_in(name, (room,)) for name in IMPORTS)
    importers = {
        name
        for name, found in IMPORTS.items()
        if not is_in(name, (room,)) and any(is_in(each, (room,)) for each in found)
    }
    assert {name for name in importers if not is_in(name, ROOMS[room])} == set()
    assert [place for place in ROOMS[room] if not any(is_in(name, (place,)) for name in importers)] == []
