"""Completes arguments in a shell: commands, components, gates, resources, scenarios and their cells."""

from collections.abc import Callable, Iterable
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from kubeskew.apimachinery.catalogue.data import resource_rows
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.known_names import all_names
from kubeskew.apimachinery.versions import Version, supported
from kubeskew.cluster.failures import ClusterError, UserError
from kubeskew.cluster.state import State, StateDir

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def components(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    state = _state(ctx)
    return [] if state is None else _matching(all_names(state.components()), incomplete)


def commands(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    root = ctx.find_root()
    names = root.command.list_commands(root) if isinstance(root.command, click.Group) else []
    return _matching(names, incomplete)


def gates(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Gates are those that the cluster's releases know, or all; `GATE=true` and `GATE=false` follow the last
    comma.
    """
    state = _state(ctx)
    versions = (
        supported() if state is None else [Version.parse(each.version) for each in state.processes.values()]
    )
    known = {name for version in versions for name in FeatureGates(version).known()}
    before, comma, last = incomplete.rpartition(",")
    name, equals, _ = last.partition("=")
    found = [f"{name}=true", f"{name}=false"] if equals and name in known else sorted(known)
    return _matching([f"{before}{comma}{each}" for each in found], incomplete)


def resources(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _matching(sorted({row["r"] for row in resource_rows()}), incomplete)


def scenarios(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Scenarios of the package come first, and the cells of the one that is named; files, if no
    name matches.
    """
    from kubeskew.conformance.matrix import bundled, find

    known = bundled()
    found = [*known]
    for name in known:
        if incomplete == name or incomplete.startswith(f"{name}/"):
            found += [cell.name for scenario in find(name) for cell in scenario.cells()]
    return _matching(found, incomplete) or [CompletionItem(incomplete, type="file")]


def cells(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """`--only` completes cells of the scenarios on the command line, or of all."""
    from kubeskew.conformance.matrix import bundled, find

    known = bundled()
    near = [name for name in known if incomplete.startswith(f"{name}/")]
    asked = [name for each in ctx.params.get("scenarios") or () for name in known if _is_of(each, name)]
    named = asked or near or known
    found = [cell.name for name in named for scenario in find(name) for cell in scenario.cells()]
    return _matching(found, incomplete)


def _is_of(name: str, scenario: str) -> bool:
    return name == scenario or name.startswith(f"{scenario}/")


def _state(ctx: click.Context) -> State | None:
    """None without a cluster."""
    directory = ctx.params.get("directory")
    if not isinstance(directory, StateDir):
        directory = StateDir(Path(ctx.find_root().params.get("state_dir") or ".kubeskew").absolute())
    try:
        return directory.load()
    except (ClusterError, UserError, OSError):
        return None


def _matching(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]
