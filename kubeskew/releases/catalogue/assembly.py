"""All releases in one document: what each type, field and resource was, and in which minors.

`catalogue(...)` gives the document of `apimachinery/data/catalogue.json`:

    minors       [oldest, newest]
    specs        every distinct field, once (see types.py)
    definitions  {name: {"in": [[first, last]…], "f": {field: spec index | [[first, last, index]…]},
                         "mt": map type or history, "e": {enum value: [[first, last]…]},
                         "pd": {path: default that a function sets in a field that is new},
                         "v": {field, or "" for the whole: rules index | [[first, last, index]…]}}}
    rules        every distinct list of declared rules, once (see validation_rules.py)
    kinds        {api version/Kind: definition}
    resources, storage, columns, groups   (see resources.py)
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kubeskew.releases.catalogue.overlay import LATER
from kubeskew.releases.catalogue.resources import (
    group_orders,
    kind_definition,
    resource_rows,
    runs,
    storage_versions,
)
from kubeskew.releases.catalogue.types import Document, definition_name, release
from kubeskew.releases.catalogue.validation_rules import declared_rules

# Gates that stand in for a marker's from a minor on: the marker stayed behind when its gate was used no more
# (pkg/api/pod/util.go, dropDisabledPodStatusFields; pkg/features/kube_features.go on the gate's deprecation).
LATER_FIELD_GATES = {"core.v1.ContainerStatus.allocatedResources": (33, "InPlacePodVerticalScaling")}

# Bodies and options that no resource row names.
_MORE_KINDS = [("policy", "v1beta1", "Eviction"), ("", "v1", "PodExecOptions")]


def read_releases(
    types: Mapping[int, Document], openapi: Mapping[int, Document]
) -> dict[int, dict[str, Document]]:
    """A release without OpenAPI borrows the definitions of the nearest one, and so the shared machinery's
    types, where its own are not among its types."""
    found = {}
    machinery = {minor: document["machinery"] for minor, document in types.items() if "machinery" in document}
    for minor, document in sorted(types.items()):
        nearest = _nearest(openapi, minor)
        shared = machinery[_nearest(machinery, minor)] if machinery else {}
        made = release({**document, "machinery": shared}, openapi[nearest], nearest == minor)
        for name, rules in declared_rules(document["types"]).items():
            if name in made:
                made[name]["rules"] = rules
        for name, definition in made.items():
            if nearest != minor and name.startswith("io.k8s.api.") and not _in_source(name, document):
                definition["borrowed"] = True
        for path, since in LATER.items():
            name, _, field = path.rpartition(".")
            if minor < since and name in made:
                made[name]["fields"].pop(field, None)
        found[minor] = made
    return found


def _nearest(releases: Iterable[int], minor: int) -> int:
    return min(releases, key=lambda other: abs(other - minor))


def _in_source(name: str, types: Document) -> bool:
    package, version, kind = name.removeprefix("io.k8s.api.").split(".")
    return kind in types["types"].get(f"{package}/{version}", {})


def _element(kind: str) -> str:
    return re.sub(r"^(\[\]|\{\}|'[^']*')+", "", kind)


def reachable(definitions: Mapping[str, Document], roots: Iterable[str]) -> set[str]:
    """Includes the definitions that those of the roots need."""
    seen: set[str] = set()
    todo = [root for root in roots if root in definitions]
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            kinds = (_element(spec["t"]) for spec in definitions[name].get("fields", {}).values())
            todo += [kind for kind in kinds if kind in definitions]
    return seen


def _roots(rows: list[Document], minor: int, definitions: Mapping[str, Document]) -> dict[str, str]:
    """`{api version/Kind: definition}` of one release."""
    found = {}
    for row in rows:
        if not row["in"][0] <= minor <= row.get("known", row["in"][1]):
            continue
        kinds = [(row["g"], row["v"], row["k"])]
        kinds += [
            (sub.get("g", row["g"]), sub.get("v", row["v"]), sub["k"]) for sub in row.get("sub", {}).values()
        ]
        more = [each for each in _MORE_KINDS if kind_definition(*each) in definitions]
        for group, version, kind in kinds + more:
            found[f"{group}/{version}/{kind}".lstrip("/")] = kind_definition(group, version, kind)
    return found


def _spread_gates(
    history: dict[int, Document], path: str, gates: Mapping[str, Document], usual: Mapping[str, list[str]]
) -> None:
    """A gate that some release names for a field holds in all releases that know the gate."""
    extra = usual.get(path.removeprefix("io.k8s.api."))
    named = {minor: spec["g"] for minor, spec in history.items() if "g" in spec}
    if extra:
        named = dict.fromkeys(history, extra) | named
    if later := LATER_FIELD_GATES.get(path.removeprefix("io.k8s.api.")):
        since, gate = later
        named = {minor: [gate] if minor >= since else names for minor, names in named.items()}
    if not named:
        return
    for minor, spec in history.items():
        nearest = min(named, key=lambda other, minor=minor: (other < minor, abs(other - minor)))  # type: ignore[misc]
        wanted = named[minor if minor in named else nearest]
        known = [
            name for name in wanted if name in gates and gates[name]["first"] <= minor <= gates[name]["last"]
        ]
        spec.pop("g", None)
        if known:
            spec["g"] = known


class Assembly:
    def __init__(
        self,
        releases: Mapping[int, Mapping[str, Document]],
        gates: Mapping[str, Document],
        field_gates: Mapping[str, list[str]],
    ) -> None:
        """`field_gates` names gates of fields for which a release's source has no marker."""
        self.releases = releases
        self.gates = gates
        self.field_gates = field_gates
        self.specs: dict[str, int] = {}
        self.rules: dict[str, int] = {}

    def _index(self, spec: Document) -> int:
        return self.specs.setdefault(_text(spec), len(self.specs))

    def definition(self, name: str, present: list[int]) -> Document:
        """`present` lists the minors in which the definition is used."""
        span = [run[:2] for run in runs(dict.fromkeys(present, 1))]
        made: Document = {"in": span}
        versions = {minor: self.releases[minor][name] for minor in present}
        newest = versions[max(present)]
        if "values" in newest:
            values = dict.fromkeys(value for version in versions.values() for value in version["values"])
            made["e"] = {
                value: self._short(span, runs({m: 1 for m, v in versions.items() if value in v["values"]}))
                for value in sorted(values)
            }
            return made
        if any("mt" in version for version in versions.values()):
            history = runs({minor: version.get("mt", "granular") for minor, version in versions.items()})
            made["mt"] = history if len({run[2] for run in history}) > 1 else history[0][2]
        if "pd" in newest:
            made["pd"] = newest["pd"]
        made["f"] = {field: self._field(name, field, versions, span) for field in _field_names(versions)}
        if any("rules" in version for version in versions.values()):
            made["v"] = self._declared(versions, span)
        return made

    def _declared(self, versions: Mapping[int, Document], span: list[list[int]]) -> Document:
        names = dict.fromkeys(
            field for minor in sorted(versions, reverse=True) for field in versions[minor].get("rules", ())
        )
        made = {}
        for field in names:
            history = {
                minor: self.rules.setdefault(_text(version["rules"][field]), len(self.rules))
                for minor, version in versions.items()
                if field in version.get("rules", ())
            }
            made[field] = _short_history(runs(history), span)
        return made

    @staticmethod
    def _short(span: list[list[int]], found: list[list[Any]]) -> Any:
        bare = [run[:2] for run in found]
        return 1 if bare == span else bare

    def _field(self, name: str, field: str, versions: Mapping[int, Document], span: list[list[int]]) -> Any:
        history = {
            minor: dict(version["fields"][field])
            for minor, version in versions.items()
            if field in version["fields"]
        }
        _spread_gates(history, f"{name}.{field}", self.gates, self.field_gates)
        return _short_history(runs({minor: self._index(spec) for minor, spec in history.items()}), span)


def _text(content: Any) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"))


def _short_history(found: list[list[Any]], span: list[list[int]]) -> Any:
    """A value that is the same in the whole span stands alone."""
    whole = [run[:2] for run in found] == span and len({run[2] for run in found}) == 1
    return found[0][2] if whole else found


def _field_names(versions: Mapping[int, Document]) -> list[str]:
    """All fields of all releases, in the order of the newest; kind, apiVersion and metadata come first."""
    names = dict.fromkeys(
        name for minor in sorted(versions, reverse=True) for name in versions[minor]["fields"]
    )
    first = [name for name in ("kind", "apiVersion", "metadata") if name in names]
    return first + sorted(name for name in names if name not in first)


def catalogue(
    types: Mapping[int, Document], openapi: Mapping[int, Document], facts: Mapping[str, Any]
) -> Document:
    """`facts` is by file stem, and its `gates` as gates.json has them."""
    releases = read_releases(types, openapi)
    rows = resource_rows(facts["discovery"], releases)
    return assembled(
        releases,
        facts["gates"]["gates"],
        groups=group_orders(facts["discovery"], max(releases)),
        resources=rows,
        storage=storage_versions(facts["storage-versions"], rows),
        columns=facts["printer-columns"]["kinds"],
        field_gates={entry["field"]: entry["gates"] for entry in facts["field-gates"]},
    )


def assembled(
    releases: Mapping[int, Mapping[str, Document]],
    gates: Mapping[str, Document],
    *,
    groups: Sequence[list[Any]],
    resources: list[Document],
    storage: Document,
    columns: Document,
    field_gates: Mapping[str, list[str]],
) -> Document:
    """The document of the releases; sections are as it has them, `gates` as gates.json has them.

    `field_gates` are gates of fields that have no marker, by path.
    """
    kinds: dict[str, str] = {}
    present: dict[str, list[int]] = {}
    for minor, definitions in releases.items():
        roots = _roots(resources, minor, definitions)
        missing = [kind for kind, name in roots.items() if name not in definitions]
        if missing:
            raise ValueError(f"1.{minor}: no type for {', '.join(missing)}")
        kinds |= roots
        shared = [name for name in definitions if not name.startswith("io.k8s.api.")]
        names = [*roots.values(), *shared, definition_name("autoscaling/v1", "Scale")]
        for name in sorted(reachable(definitions, names)):
            present.setdefault(name, []).append(minor)
    assembly = Assembly(releases, gates, field_gates)
    definitions = {name: assembly.definition(name, present[name]) for name in sorted(present)}
    return {
        "minors": [min(releases), max(releases)],
        "groups": [[first, last, ["", *names]] for first, last, names in groups],
        "resources": resources,
        "storage": storage,
        "columns": columns,
        "kinds": dict(sorted(kinds.items())),
        "specs": [json.loads(text) for text in assembly.specs],
        "rules": [json.loads(text) for text in assembly.rules],
        "definitions": definitions,
    }
