"""`kubeskew features`: what a component does at a version, and which gate, release or bug decides it."""

import dataclasses
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, NamedTuple

import click

from kubeskew.apimachinery.cel.features import LanguageFeatures
from kubeskew.apimachinery.features import Condition, Explained, FeatureTable, always, preview, since, until
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.process.component import bugs_option
from kubeskew.apimachinery.quota.features import ClaimUsageFeatures, PodUsageFeatures
from kubeskew.apimachinery.versions import DEFAULT_VERSION, Version
from kubeskew.apiserver.features import Features
from kubeskew.cli import completion
from kubeskew.cli.commands.options import VERSION, output_option, print_json, print_table
from kubeskew.cli.terminal import echo
from kubeskew.cluster.failures import UserError
from kubeskew.controllers.features import ControllerFeatures
from kubeskew.controllers.resourceclaim.classic.features import ClassicClaimFeatures
from kubeskew.kubelet.dra.classic.features import ClassicFeatures as ClassicManagerFeatures
from kubeskew.kubelet.dra.features import DRAFeatures
from kubeskew.kubelet.dra.generations import DRAGenerations
from kubeskew.kubelet.drivers.classic.controller.features import LibraryFeatures
from kubeskew.kubelet.drivers.classic.features import ClassicPluginLibrary
from kubeskew.kubelet.drivers.features import PluginLibrary, ServedSlices, SliceLibrary
from kubeskew.kubelet.drivers.generations import DriverGenerations
from kubeskew.kubelet.features import KubeletFeatures
from kubeskew.scheduler.allocator.features import AllocatorFeatures
from kubeskew.scheduler.features import SchedulerFeatures
from kubeskew.scheduler.plugins.dynamicresources.classic.features import ClassicFeatures
from kubeskew.scheduler.plugins.dynamicresources.generations import Generations

_VALUE_MAX = 40  # characters of a value in a table; -o json has it whole


class Shown(NamedTuple):
    """A table, and the releases whose components read it."""

    table: type[FeatureTable]
    where: Condition = always(True)


_QUOTA = {"quota.pods": Shown(PodUsageFeatures), "quota.claims": Shown(ClaimUsageFeatures)}
_CLASSIC_KUBELET = until(30) & ~preview("kep3063")
# The tables of each kind of component, with what stands before the names of their features.
TABLES: Mapping[str, Mapping[str, Shown]] = {
    "apiserver": {"": Shown(Features), "cel": Shown(LanguageFeatures), **_QUOTA},
    "controller-manager": {
        "": Shown(ControllerFeatures),
        "resource_claims.classic": Shown(ClassicClaimFeatures, until(31)),
        **_QUOTA,
    },
    "scheduler": {
        "": Shown(SchedulerFeatures),
        "allocator": Shown(AllocatorFeatures, since(31)),
        "generations": Shown(Generations),
        "classic": Shown(ClassicFeatures, until(31)),
    },
    "kubelet": {
        "": Shown(KubeletFeatures),
        "dra.generations": Shown(DRAGenerations),
        "dra": Shown(DRAFeatures, since(31)),
        "dra.classic": Shown(ClassicManagerFeatures, _CLASSIC_KUBELET),
    },
    "driver": {
        "plugin": Shown(PluginLibrary),
        "generations": Shown(DriverGenerations),
        "slices": Shown(SliceLibrary, since(31)),
        "served": Shown(ServedSlices, since(31)),
        "classic": Shown(ClassicPluginLibrary, until(30)),
        "controller": Shown(LibraryFeatures, until(31)),
    },
}


def explained(component: str, gates: FeatureGates) -> Iterator[Explained]:
    """Yields the features of a component, in the order of its tables."""
    for prefix, (table, where) in TABLES[component].items():
        if where.value(gates):
            yield from table.explain(gates, f"{prefix}." if prefix else "")


@click.command()
@click.option("--component", required=True, type=click.Choice([*TABLES]), help="The component.")
@click.option(
    "--version",
    type=VERSION,
    default=str(DEFAULT_VERSION),
    show_default=True,
    help="The version of the component.",
)
@click.option(
    "--to", "target", type=VERSION, help="A second version: show only features that differ between the two."
)
@click.option(
    "--feature-gates",
    "gates",
    shell_complete=completion.gates,
    default="",
    metavar="A=true,…",
    help="Feature gates to turn on or off, at both versions.",
)
@bugs_option
@output_option
def features(
    component: str,
    version: Version,
    target: Version | None,
    gates: str,
    bugs: Mapping[str, bool],
    output: str,
) -> None:
    """Show what a component does at a version, and by which feature gate, release or known bug.

    A feature is a named decision in kubeskew's code: FEATURE is its name there, VALUE what it is at the
    version, WHY what decided it. RULE says at which versions and gates the feature is on.

    \b
    kubeskew features --component scheduler --version 1.34
    kubeskew features --component kubelet --version 1.33.5 --to 1.36
    kubeskew features --component apiserver --feature-gates DRAConsumableCapacity=false -o json
    """
    rows = [*explained(component, _gates(version, gates, bugs))]
    if target is None:
        _show(rows, output)
        return
    after = {row.name: row for row in explained(component, _gates(target, gates, bugs))}
    before = {row.name: row for row in rows}
    names = [*before, *(name for name in after if name not in before)]
    _compare([(name, before.get(name), after.get(name)) for name in names], version, target, output)


def _gates(version: Version, text: str, bugs: Mapping[str, bool]) -> FeatureGates:
    try:
        return FeatureGates.parse(version, text, bugs)
    except ValueError as error:
        raise UserError(f"feature gates: {error}") from error


def _show(rows: list[Explained], output: str) -> None:
    if output == "json":
        print_json([_as_json(row) for row in rows])
        return
    print_table(
        ("FEATURE", "VALUE", "WHY", "RULE"),
        [
            {"feature": row.name, "value": _text(row.value), "why": _why(row), "rule": row.rule}
            for row in rows
        ],
        (1, 1, 2, 1),
    )


def _compare(
    rows: list[tuple[str, Explained | None, Explained | None]], one: Version, other: Version, output: str
) -> None:
    different = [
        (name, before, after)
        for name, before, after in rows
        if before is None or after is None or _plain(before.value) != _plain(after.value)
    ]
    if output == "json":
        print_json(
            [
                {
                    "name": name,
                    str(one): None if before is None else _as_json(before),
                    str(other): None if after is None else _as_json(after),
                }
                for name, before, after in different
            ]
        )
        return
    if not different:
        echo(f"nothing differs between {one} and {other}")
        return
    print_table(
        ("FEATURE", str(one), str(other), "WHY"),
        [
            {
                "feature": name,
                str(one): "-" if before is None else _text(before.value),
                str(other): "-" if after is None else _text(after.value),
                "why": _why(after or before),
            }
            for name, before, after in different
        ],
        (1, 1, 1, 2),
    )


def _why(row: Explained | None) -> str:
    return "; ".join(reason.text for reason in row.reasons) if row is not None else ""


def _as_json(row: Explained) -> dict[str, Any]:
    reasons = [{"kind": reason.kind, "text": reason.text} for reason in row.reasons]
    return {"name": row.name, "value": _plain(row.value), "why": reasons, "rule": row.rule}


def _text(value: Any) -> str:
    plain = _plain(value)
    text = str(plain).lower() if isinstance(plain, bool) else str(plain)
    return text if len(text) <= _VALUE_MAX else f"{text[: _VALUE_MAX - 1]}…"


def _plain(value: Any) -> Any:
    """The value in JSON's types; what has none is its name, or its class and fields."""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Version):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(_plain(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    if hasattr(value, "_asdict"):
        return {name: _plain(item) for name, item in value._asdict().items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: _plain(getattr(value, each.name)) for each in dataclasses.fields(value)}
    return getattr(value, "__name__", None) or _class_and_fields(value)


def _class_and_fields(value: Any) -> str:
    known = {name: _plain(item) for name, item in vars(value).items()} if hasattr(value, "__dict__") else {}
    shown = ", ".join(f"{name.lstrip('_')}={item}" for name, item in known.items() if name != "_types")
    return f"{type(value).__name__}({shown})"
