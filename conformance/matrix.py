"""Chooses cells by scenario, by profile, by pattern and by shard.

The cluster of a scenario and the components of its operations are checked before any cluster is started.
"""

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from importlib import resources
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, NoReturn

from kubeskew.apimachinery.gates import FeatureGates, known_gate
from kubeskew.apimachinery.known_names import METRICS_SERVER, all_names, did_you_mean, some_of
from kubeskew.apimachinery.versions import Version, supported
from kubeskew.cluster import config, drivers, skew
from kubeskew.cluster.change_plan import check_gates, initial_target
from kubeskew.cluster.config import ClusterSpec
from kubeskew.cluster.failures import UserError
from kubeskew.conformance import grammar
from kubeskew.conformance.bindings import bind, names_in
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.grammar import OPERATIONS, PROFILE_KEYS, check_keys
from kubeskew.conformance.loader import load, load_all, numbered
from kubeskew.conformance.operations import faults
from kubeskew.conformance.scenario import Cell, Operation, Scenario
from kubeskew.kubelet.drivers import switches
from kubeskew.kubelet.node import config as node_settings

_KINDS = ("apiserver", "controller-manager", "scheduler", "kubelet")
# What an operation compares with what it finds, bound when it does.
_EXPECTED = {"simulate": "answer", "request": "answer"}
_ALL_GATES = ("AllAlpha", "AllBeta")
TEST_FILES = ("chainsaw-test.yaml", "chainsaw-test.yml")  # of a folder, as Chainsaw finds them
_SUFFIXES = frozenset({".yaml", ".yml"})
FIRST = "kep-5004/upgrade-downgrade/*/1.35-1.36-1.35"

# Which of the cells that come along a profile runs, by name.
PROFILES: Mapping[str, tuple[str, ...]] = {
    "first": (FIRST,),
    # cells that most changes break, in half a minute if simulated: of all groups, with all components
    "quick": (
        FIRST,
        *("autoscaling/before-devices/named-resources", "classic/claims/1.30", "classic/moves/1.27-1.28"),
        *("classic/checkpoint/1.30-1.31", "dra/api-versions/1.36", "dra/binding-conditions-upgrade"),
        *("dra/claims/1.36", "dra/control-plane/1.36", "dra/devices/1.36", "dra/drivers/1.36"),
        *("dra/extended-resources/1.36", "dra/kubelet/1.36", "dra/scheduling/1.36"),
        *(
            "dra/rollout-prepare/partitions/1.35-1.36-1.35",
            "kep-3063/acme-gpu/*/node",
            "kep-3063/upgrade/all",
        ),
        *("ha/fields/app-armor-1.30", "storage/past-versions/1.35-1.34-1.33"),
        *("upgrade/cpu-manager/1.36-1.37-1.36", "workloads/churn/1.36"),
        *("kep-4381/driver", "kep-4381/introduction/all", "kep-4381/pool/delayed/native"),
        *("kep-4815/example/1.36/*", "kep-4815/flips/all/1.36", "kep-4815/mig-claim/1.36"),
        *("kep-4815/invalid-pools/1.36/unknown-counter-set", "kep-4815/mig/1.36", "kep-4815/tpu/1.36"),
        *("kep-4815/multi-host/1.36", "kep-4815/skew/1.36-with-1.35/*", "kep-4815/upgrade-downgrade/*"),
        *("kep-5004/basic/*/1.36", "kep-5004/enablement/*/1.36", "kep-5004/mixed-nodes/explicit/1.35"),
        *("kep-5004/names/1.36", "kep-5004/on-off-on/explicit/1.36", "kep-5004/quota/1.36"),
        *("kep-5004/pairs/1.35-1.36-1.35-1.36/*/explicit", "kep-5004/persistence/implicit/1.34-1.35-1.34"),
        *("kep-5004/staged-flips/explicit/none", "kep-5004/staged/explicit/1.35-1.36/all"),
        *(
            "kep-5004/locked/explicit/apiserver",
            "kep-5004/staged-back/explicit/1.36-1.35/scheduler",
            "kep-5004/staged-first/implicit/scheduler",
        ),
        *(
            "kep-5004/version-paths/1.35-1.36-1.37-1.36/*",
            "known-bugs/k8s-132334/*",
            "known-bugs/k8s-134773/*",
        ),
    ),
    # of each group of scenarios and of several releases; some pass, fail as upstream, or are not run in part
    "sample": (
        *("dra/api-versions/1.36", "dra/binding-conditions-upgrade"),
        *("kep-4815/mig/1.36", "kep-4815/upgrade-downgrade/kept"),
        *("kep-5004/basic/explicit/1.36", "kep-5004/mixed-nodes/explicit/1.35", "kep-5004/names/1.36"),
        *("kep-5004/persistence/implicit/1.34-1.35-1.34", "kep-5004/staged-flips/explicit/none"),
        "kep-5004/version-paths/1.35-1.36-1.37-1.36/by-component",
    ),
    "full": ("*",),
}


def check_cluster(scenario: Scenario) -> None:
    """Raises ScenarioError if a cell's cluster cannot be started, or an operation names a component or node
    that is not in it.

    A mistake in many cells is reported once, with the first of them.
    """
    where = f"{scenario.source}: cluster"
    checked: dict[str, ClusterSpec] = {}  # by the text of the cluster, which many cells share
    for cell in scenario.cells():
        cluster = cell.cluster()
        spec = checked.get(repr(cluster))
        if spec is None:
            try:
                spec = checked[repr(cluster)] = _checked_cluster(cluster, where)
            except UserError as error:
                of_cell = f" (cell {cell.name})" if cell.parameters else ""
                raise ScenarioError(f"{error}{of_cell}", error.key) from error
        _check_operations(cell, spec, cell.bindings())


def _checked_cluster(cluster: Mapping[str, Any], where: str) -> ClusterSpec:
    """Raises UserError if the cluster cannot be started."""
    spec = config.parse(cluster, where)
    targets = {name: initial_target(spec, name) for name in spec.components}
    for name, target in targets.items():
        check_gates(name, target)
    if found := skew.violations({name: target.version for name, target in targets.items()}):
        raise UserError(f"{where}: unsupported version skew: {'; '.join(found)}")
    return spec


def _check_operations(cell: Cell, spec: ClusterSpec, bindings: Mapping[str, Any]) -> None:
    """Only operations whose bodies the parameters determine are checked."""
    nodes = {node.name: node.as_json() for node in spec.nodes}
    for step in cell.steps():
        known = {**bindings, **step.loop}
        for operation in step.all_operations():
            if OPERATIONS[operation.kind].of_cluster and all(
                name in known for name in names_in(operation.body)
            ):
                expected = _EXPECTED.get(operation.kind)
                stated = {key: value for key, value in operation.body.items() if key != expected}
                _check_operation(operation, bind(stated, known), spec, nodes)
            for name in operation.outputs:
                known.pop(name, None)


def _check_operation(
    operation: Operation, body: Mapping[str, Any], spec: ClusterSpec, nodes: Mapping[str, Any]
) -> None:
    where = f"{operation.where}.{operation.kind}"
    devices = [drivers.component(name) for name in drivers.all_of(nodes)]
    controllers = [drivers.controller_component(name) for name in drivers.controlled(nodes)]
    add_ons = [METRICS_SERVER] if spec.metrics_server else []
    every = all_names([*spec.components, *devices, *controllers, *add_ons])
    if operation.kind in {"upgrade", "downgrade", "move"}:
        for key in [key for key in ("from", "to") if key in body]:
            _check_version(body[key], f"{where}.{key}")
    if operation.kind in {"gates", "kubelet"} and body.get("set") is not None:
        _SETTINGS[operation.kind](body["set"], f"{where}.set")
    if body.get("components") is not None:
        components = body["components"]
        if not isinstance(components, list):
            raise ScenarioError(f"{where}.components: expected a list of components, found {components!r}")
        for name in components:
            _check_known(
                str(name),
                [*spec.components, *_KINDS, *devices, *controllers, *add_ons],
                f"{where}.components",
                "component",
            )
    if "component" in body:
        named = body["component"]  # one, or a list of them where an operation takes several
        for name in named if isinstance(named, list) else [named]:
            _check_known(name, every, f"{where}.component", "component")
    if operation.kind == "fault":
        faults.check(body, where)
    if operation.kind == "driver":
        _check_known(drivers.component(str(body["name"])), devices, f"{where}.name", "component")
        _check_switches(body, where)
    for node in [body["node"]] if body.get("node") else body.get("nodes") or []:
        _check_known(node, list(nodes), f"{where}.node", "node")


def _check_known(name: Any, known: Sequence[str], where: str, what: str) -> None:
    if name not in known:
        names = ", ".join(dict.fromkeys(known)) or "none"
        raise ScenarioError(
            f"{where}: there is no {what} {name}; known are {names}{did_you_mean(str(name), known)}"
        )


def _check_version(to: Any, where: str) -> None:
    try:
        Version.parse(str(to))
    except ValueError as error:
        hint = '; YAML reads 1.30 as the number 1.3: write "1.30"' if isinstance(to, float) else ""
        raise ScenarioError(f"{where}: {error}{hint}") from error


def _check_gates(chosen: Any, where: str) -> None:
    """Raises ScenarioError for a gate that no release has, or a value that is no boolean."""
    if not isinstance(chosen, Mapping):
        raise ScenarioError(f"{where}: expected a mapping of gates to true or false, found {chosen!r}")
    for name, on in chosen.items():
        if not known_gate(str(name)) and name not in _ALL_GATES:
            gates = [gate for version in reversed(supported()) for gate in FeatureGates(version).known()]
            raise ScenarioError(
                f"{where}: no release has a gate {name}{did_you_mean(str(name), gates)}", name
            )
        if on is not None and not isinstance(on, bool):
            raise ScenarioError(f"{where}.{name}: expected true or false, found {on!r}")


def _check_kubelet(settings: Any, where: str) -> None:
    check_keys(settings, node_settings.SETTINGS_KEYS, where)
    try:
        node_settings.parse_settings(settings, where)
    except node_settings.SettingsError as error:
        raise ScenarioError(str(error)) from error


_SETTINGS = {"gates": _check_gates, "kubelet": _check_kubelet}  # of operations with `set`


def _check_switches(body: Mapping[str, Any], where: str) -> None:
    try:
        switches.parse({key: value for key, value in body.items() if key in switches.SWITCHES})
    except switches.SwitchError as error:
        raise ScenarioError(f"{where}.{error}") from error


@dataclass(frozen=True, slots=True)
class Selection:
    """Scenarios, and the patterns of the names of their cells; `title` describes the request.

    `named` are the only cells that are meant of a scenario, by its source.
    """

    title: str
    scenarios: Sequence[Scenario]
    patterns: Sequence[str] = ("*",)
    named: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def gates(self) -> list[str]:
        """Gates of headers count, of any cell; they are sorted."""
        clusters = [cell.cluster() for scenario in self.scenarios for cell in scenario.cells()]
        parts = [
            part for cluster in clusters for part in (cluster, *(cluster.get("components") or {}).values())
        ]
        return sorted({name for part in parts for name in part.get("featureGates") or {}})

    def cells(self, only: Sequence[str] = ()) -> list[Cell]:
        """A cell's name matches a pattern, and one of `only` if there are any; cells come in the order of
        files.

        Raises ScenarioError if two cells have one name, or a pattern of the selection matches none.
        """
        every = [cell for scenario in self.scenarios for cell in scenario.cells()]
        sources: dict[str, str] = {}
        for cell in every:
            other = sources.setdefault(cell.name, cell.scenario.source)
            if other != cell.scenario.source:
                raise ScenarioError(f"two files have a cell {cell.name}: {other} and {cell.scenario.source}")
        for pattern in self.patterns:
            if not any(fnmatchcase(name, pattern) for name in sources):
                raise ScenarioError(
                    f"{self.title}: no cell has the name {pattern}{did_you_mean(pattern, sources)}"
                )
        chosen = {
            cell.name: cell
            for cell in every
            if any(fnmatchcase(cell.name, pattern) for pattern in self.patterns)
            and (not only or any(fnmatchcase(cell.name, pattern) for pattern in only))
            and cell.name in self.named.get(cell.scenario.source, {cell.name})
        }
        return list(chosen.values())


def bundled() -> dict[str, Path]:
    """Maps the names of the scenarios that come with the project to their files."""
    root = Path(str(resources.files("kubeskew.conformance").joinpath("scenarios")))
    return {str(path.relative_to(root).with_suffix("")): path for path in sorted(root.rglob("*.yaml"))}


def _near(name: str, known: Iterable[str]) -> list[str]:
    """Scenarios of the same folder are near; without any, the folders are listed."""
    folder = name.partition("/")[0]
    same_folder = [each for each in known if each.startswith(f"{folder}/")]
    return same_folder or [f"{each}/*" for each in dict.fromkeys(each.partition("/")[0] for each in known)]


def find(name: str, folder: Path | None = None) -> list[Scenario]:
    """A name may be that of a scenario, of a file, which may be relative to another `folder`, or of a
    folder.

    Of a folder, all files below it count that are called as Chainsaw's tests are. Raises ScenarioError with
    names that are near.
    """
    path = (folder or Path()) / name
    if path.suffix in _SUFFIXES or path.is_file():
        return _of_file(path) if path.exists() else _missing(path)
    known = bundled()
    if name not in known and path.is_dir():
        files = sorted(file for pattern in TEST_FILES for file in path.rglob(pattern))
        if not files:
            raise ScenarioError(
                f"{path} is a directory without a {TEST_FILES[0]}: name a scenario's file in it"
            )
        return [scenario for file in files for scenario in _of_file(file)]
    if name not in known:
        hint = did_you_mean(name, known) or f"; there are {some_of(_near(name, known), 20)}"
        raise ScenarioError(f"there is no scenario {name}, and no such file{hint}")
    return [_that_comes_along(known[name])]


def _missing(path: Path) -> NoReturn:
    """Raises ScenarioError that names the file of the folder whose name is nearest."""
    names = [each.name for each in sorted(path.parent.glob("*")) if each.suffix in _SUFFIXES]
    hint = did_you_mean(path.name, names)
    raise ScenarioError(f"cannot read {path}: No such file or directory{hint}")


def _of_file(path: Path) -> list[Scenario]:
    found = load_all(path.absolute())  # a simulation has a working directory of its own
    for number, scenario in enumerate(found):
        with grammar.lines_of(path.absolute(), number):
            check_cluster(scenario)
    return found


@functools.cache
def _that_comes_along(path: Path) -> Scenario:
    """The file is bundled, so that no process sees it change."""
    scenario = load(path)
    with grammar.lines_of(path):
        check_cluster(scenario)
    return scenario


def of_scenarios(names: Sequence[str]) -> Selection:
    """A name is that of a scenario, of a file or of one cell.

    Raises ScenarioError for a name that is none of these.
    """
    by_file: dict[str, list[Scenario]] = {}
    named: dict[str, set[str]] = {}
    whole: set[str] = set()
    for name in names:
        scenario = _scenario_of_cell(name)
        for source, found in groupby(find(scenario or name), attrgetter("source")):
            by_file[source] = list(found)
            if scenario:
                named.setdefault(source, set()).add(_known_cell(by_file[source], name))
            else:
                whole.add(source)
    chosen = numbered(scenario for scenarios in by_file.values() for scenario in scenarios)
    only = {source: frozenset(cells) for source, cells in named.items() if source not in whole}
    titles = [title for scenario in chosen for title in sorted(only.get(scenario.source, {scenario.name}))]
    return Selection(", ".join(titles), chosen, named=only)


def _scenario_of_cell(name: str) -> str:
    """The name is empty if no bundled scenario may have a cell of this name."""
    known = bundled()
    if name in known or Path(name).exists():
        return ""
    return max((each for each in known if name.startswith(f"{each}/")), key=len, default="")


def _known_cell(scenarios: Sequence[Scenario], name: str) -> str:
    """Raises ScenarioError if the scenarios do not have the cell."""
    names = [cell.name for scenario in scenarios for cell in scenario.cells()]
    if name not in names:
        raise ScenarioError(f"there is no cell {name}; there are {some_of(names)}{did_you_mean(name, names)}")
    return name


def of_profile(profile: str) -> Selection:
    """The profile is bundled, or a file `{scenarios: […], cells: [PATTERN…]}`.

    In a file, `scenarios` are names, or files relative to it; without `cells` all of theirs are meant.
    """
    if profile in PROFILES:
        return Selection(
            f"matrix {profile}", [*map(_that_comes_along, bundled().values())], PROFILES[profile]
        )
    path = Path(profile)
    if path.suffix not in {".yaml", ".yml"} and not path.is_file():
        raise ScenarioError(
            f"there is no profile {profile}; there are: {', '.join(PROFILES)} (or name a file)"
            + did_you_mean(profile, PROFILES)
        )
    documents = grammar.read(path)
    if len(documents) != 1:
        raise ScenarioError(f"{path}: expected one document, found {len(documents)}")
    value = check_keys(documents[0], PROFILE_KEYS, str(path))
    names, patterns = value.get("scenarios") or list(bundled()), value.get("cells") or ["*"]
    for key, entries in (("scenarios", names), ("cells", patterns)):
        if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
            raise ScenarioError(f"{path}: {key}: expected a list of names, found {entries!r}")
    found = [scenario for name in names for scenario in find(name, path.parent)]
    return Selection(str(path), numbered(found), patterns)


def cells_of(profile: str, only: str = "*") -> list[Cell]:
    """`only` is a shell pattern."""
    return of_profile(profile).cells([only])


def with_same_cluster(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Groups come in the order of their first cells."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(repr(cell.cluster()), []).append(cell)
    return [*groups.values()]


def shard(cells: Sequence[Cell], number: int, count: int, *, alike: bool = False) -> list[Cell]:
    """Shards are of like size, have each cell once, and are numbered from 1.

    A cell is in the shard of the one that it is compared with, for a report does not have the compared
    records. With `alike`, cells with one cluster are together, too, so that simulations can start it once for
    all. The largest groups are dealt first, each to the shard that has the fewest cells.
    """
    shards: list[list[Cell]] = [[] for _ in range(count)]
    for group in sorted(_inseparable(cells, alike=alike), key=len, reverse=True):
        min(shards, key=len).extend(group)
    places = {cell.name: place for place, cell in enumerate(cells)}
    return sorted(shards[number - 1], key=lambda cell: places[cell.name])


def _inseparable(cells: Sequence[Cell], *, alike: bool) -> list[list[Cell]]:
    """Cells of a group stay in one shard; groups come in the order of their first cells."""
    groups: dict[int, list[Cell]] = {}  # by the place of their first cell
    first: dict[str, int] = {}  # of what its cells share: in which group that is
    for place, cell in enumerate(cells):
        shared = [
            f"baseline {cell.baseline or cell.name}",
            *([f"cluster {cell.cluster()!r}"] if alike else []),
        ]
        joined = sorted({first[each] for each in shared if each in first})
        target = joined[0] if joined else place
        groups.setdefault(target, []).append(cell)
        for other in joined[1:]:
            groups[target] += groups.pop(other)
        first = {each: target if at in joined else at for each, at in first.items()} if joined[1:] else first
        first |= dict.fromkeys(shared, target)
    return [*groups.values()]
