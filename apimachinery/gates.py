"""Feature gates: which exist at a release, their defaults, and how a flag sets them.

The table is `data/gates.json`, made by `make catalogue`. Nothing here is global: a component gets its
`FeatureGates` as an argument. Error texts: k8s.io/component-base/featuregate, 1.36.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from kubeskew.apimachinery.known_bugs import KnownBugs
from kubeskew.apimachinery.versions import Version, supported

FILE = "gates.json"
_TABLE = Path(__file__).parent / "data" / FILE

_TRUE = {"1", "t", "T", "TRUE", "true", "True"}
_FALSE = {"0", "f", "F", "FALSE", "false", "False"}
_UNKNOWN = {"last": -1}
_SPECIAL = {"AllAlpha": "Alpha", "AllBeta": "Beta"}
# Gates that are on by default in the releases with a known bug, for which a later patch switched them off.
_ON_WITH = {
    "DisableNodeKubeProxyVersion": "k8s-126721",
    "MaxUnavailableStatefulSet": "k8s-137409",
    "SchedulerAsyncAPICalls": "k8s-134401",
}


class GateError(ValueError):
    """A set of gates that a component of the version refuses; the text is upstream's."""


class GateSpec(NamedTuple):
    stage: str  # Alpha, Beta, GA, Deprecated
    default: bool
    locked: bool


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = orjson.loads(_TABLE.read_bytes())
    return table


def _spec(row: Mapping[str, Any], minor: int) -> GateSpec | None:
    exact = row.get("releases", {}).get(str(minor))
    if exact:
        return GateSpec(exact[0], bool(exact[1]), bool(exact[2]))
    found = None
    for since, stage, default, locked in row["specs"]:
        if since <= minor:
            found = GateSpec(stage, bool(default), bool(locked))
    return found


@cache
def _previewed(version: Version) -> Mapping[str, GateSpec]:
    """Gates that the table of the preview's minor lacks or has otherwise."""
    rows = _table()["previews"].get(str(version.release), {})
    return {
        name: GateSpec(stage, bool(default), bool(locked)) for name, (stage, default, locked) in rows.items()
    }


@cache
def _imported(version: Version) -> Mapping[str, Any]:
    """Facts of an imported release's tree: gates as [stage, default, locked], dependencies of some."""
    table: Mapping[str, Any] = version.document(FILE)
    return table


@cache
def _specs(version: Version) -> Mapping[str, GateSpec]:
    """Every gate that acts at a release, also those whose name the flag no longer or not yet takes.

    A gate that an imported release no longer has acts as in its base.
    """
    if version.imported_from is not None:
        rows = _imported(version)["gates"].items()
        own = {name: GateSpec(stage, bool(default), bool(locked)) for name, (stage, default, locked) in rows}
        return dict(_specs(version.imported_from.release)) | own
    found = {name: _spec(row, version.minor) for name, row in _table()["gates"].items()}
    return {name: spec for name, spec in found.items() if spec is not None} | dict(_previewed(version))


def _takes(version: Version, name: str) -> bool:
    """True if the release's flag takes the name."""
    if version.imported_from is not None:
        return name in _SPECIAL or name in _imported(version)["gates"]
    row = _table()["gates"].get(name)
    return name in _previewed(version) or (row is not None and row["first"] <= version.minor <= row["last"])


def _is_registered_later(version: Version, name: str) -> bool:
    """True if an imported release's tree registers the gate for later minors alone: it is off."""
    return version.imported_from is not None and name in _imported(version).get("later", ())


def _comes_later(version: Version, name: str) -> bool:
    """True if the gate belongs to the release's code, but not to its version: such a name is PreAlpha."""
    return version.imported_from is None and _table()["gates"].get(name, _UNKNOWN)["last"] >= version.minor


@cache
def _dependencies(version: Version) -> Mapping[str, Sequence[str]]:
    if version.imported_from is not None:
        imported: Mapping[str, Sequence[str]] = _imported(version)["dependencies"]
        return imported
    return {
        name: needed
        for name, spans in _table()["dependencies"].items()
        for first, last, needed in spans
        if first <= version.minor <= last
    }


@cache
def _of_stage(version: Version, stage: str) -> tuple[str, ...]:
    """The gates that `AllAlpha` or `AllBeta` sets at a release."""
    return tuple(
        name for name, spec in _specs(version).items() if spec.stage == stage and _takes(version, name)
    )


def known_gate(name: str) -> bool:
    """True if any release has the gate."""
    return name in _table()["gates"] or any(
        name in _imported(version)["gates"] for version in supported() if version.imported_from is not None
    )


def all_gates() -> list[str]:
    """Those of shipped releases."""
    return [*_table()["gates"]]


def _parse_bool(name: str, text: str) -> bool:
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise GateError(
        f'invalid value of {name}={text}, err: strconv.ParseBool: parsing "{text}": invalid syntax'
    )


def parse_overrides(text: str) -> dict[str, bool]:
    """Parses `A=true,B=false` without checking that the gates exist; raises GateError."""
    overrides: dict[str, bool] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, separator, value = (part.strip() for part in item.partition("="))
        if not separator:
            raise GateError(f"missing bool value for {name}")
        overrides[name] = _parse_bool(name, value)
    return overrides


def _turned_on(version: Version, name: str, bugs: KnownBugs) -> bool:
    """True if the gate is on for a known bug. The source of an imported release says itself what is on."""
    return version.imported_from is None and name in _ON_WITH and bugs.present(_ON_WITH[name])


@lru_cache(maxsize=1024)
def _enabled(version: Version, items: tuple[tuple[str, bool], ...], bugs: KnownBugs) -> Mapping[str, bool]:
    """`items` are the gates set by hand; single ones go before AllAlpha and AllBeta."""
    overrides = dict(items)
    enabled = {name: spec.default for name, spec in _specs(version).items()}
    enabled.update({name: True for name in _ON_WITH if _turned_on(version, name, bugs)})
    for special, stage in _SPECIAL.items():
        if special in overrides:
            enabled.update(dict.fromkeys(_of_stage(version, stage), overrides[special]))
    enabled.update(overrides)
    return enabled


class FeatureGates:
    """The gates of one component: the table of its version, and settings by hand. Immutable, hashable.

    `bugs` are the known bugs that it has: with version and gates they decide every feature.
    """

    __slots__ = ("_enabled", "_hash", "_overrides", "_specs", "_version", "bugs")

    def __init__(
        self,
        version: Version,
        overrides: Mapping[str, bool] | None = None,
        bugs: Mapping[str, bool] | None = None,
    ) -> None:
        """Accepts any overrides; `validate` checks them. `bugs` switches known bugs by hand."""
        self._version = version
        self.bugs = KnownBugs(version, bugs)
        self._overrides: Mapping[str, bool] = dict(sorted((overrides or {}).items()))
        items = tuple(self._overrides.items())
        self._hash = hash((version, items, self.bugs))
        self._specs = _specs(version)
        self._enabled = _enabled(version, items, self.bugs)

    @classmethod
    def parse(cls, version: Version, text: str, bugs: Mapping[str, bool] | None = None) -> "FeatureGates":
        """Parses `--feature-gates=text` for that version; raises GateError in upstream's words."""
        gates = cls(version, parse_overrides(text), bugs)
        gates.validate()
        return gates

    @property
    def version(self) -> Version:
        return self._version

    @property
    def overrides(self) -> Mapping[str, bool]:
        return self._overrides

    def enabled(self, name: str) -> bool:
        """A gate that this version does not have yet is off."""
        return self._enabled.get(name, False)

    def enabled_of(self, names: Iterable[str]) -> frozenset[str]:
        """The gates among the names that are on; the names come from data."""
        return frozenset(name for name in names if self.enabled(name))

    def setting_of(self, name: str) -> str:
        """The setting that decides a gate: its own name, AllAlpha, AllBeta, a known bug's id; else empty."""
        if name in self._overrides:
            return name
        for special, stage in _SPECIAL.items():
            if special in self._overrides and name in _of_stage(self._version, stage):
                return special
        return _ON_WITH[name] if _turned_on(self._version, name, self.bugs) else ""

    def flag(self) -> str:
        """The value that `--feature-gates` needs for the same gates."""
        return ",".join(f"{name}={str(value).lower()}" for name, value in self._overrides.items())

    def spec(self, name: str) -> GateSpec | None:
        """None if the gate does not act at this version (PreAlpha)."""
        return self._specs.get(name)

    def knows(self, name: str) -> bool:
        """True if the flag of this version takes the name."""
        return _takes(self._version, name)

    def known(self) -> list[str]:
        """Names that the flag of this version takes, sorted."""
        return [name for name in sorted(_SPECIAL.keys() | self._specs.keys()) if self.knows(name)]

    def states(self) -> Iterator[tuple[str, str, bool]]:
        """Yields the names that the flag accepts, sorted, with the stage of each and whether it is on."""
        for name in self.known():
            spec = self.spec(name)
            yield name, "GA" if spec is None else spec.stage, self.enabled(name)

    def is_off(self, name: str) -> bool:
        """A gate that the release no longer has is on for good; one that it lacks yet guards nothing, unless
        an imported tree has its field already."""
        return _is_registered_later(self._version, name) or (
            self.spec(name) is not None and not self.enabled(name)
        )

    def validate(self) -> None:
        """Raises GateError if this version's flag parser would refuse the overrides."""
        errors: list[str] = []
        for name, value in self._overrides.items():
            if not self.knows(name) and not _comes_later(self._version, name):
                errors.append(f"unrecognized feature gate: {name}")
                break  # upstream stops at the first unknown name
            refused = self._refuse(name, value)
            if refused:
                errors.append(refused)
        if not errors:
            errors = self._dependency_errors()
        if errors:
            raise GateError(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")

    def _refuse(self, name: str, value: bool) -> str:
        spec = self.spec(name)
        setting = f"cannot set feature gate {name} to {str(value).lower()}"
        if spec is None or not self.knows(name):
            return f"{setting}, feature is PreAlpha at emulated version {self._version.release}"
        if spec.locked and spec.default != value:
            return f"{setting}, feature is locked to {str(spec.default).lower()}"
        return ""

    def needed(self, name: str) -> Sequence[str]:
        """The gates without which this one cannot be on."""
        return _dependencies(self._version).get(name, ())

    def _dependency_errors(self) -> list[str]:
        errors = []
        for name, needed in _dependencies(self._version).items():
            off = [other for other in needed if self.spec(other) and not self.enabled(other)]
            if off and self.spec(name) and self.enabled(name):
                errors.append(
                    f"{name} is enabled, but depends on features that are disabled: [{' '.join(off)}]"
                )
        return errors

    def warnings(self) -> list[str]:
        """Logged by a component when it starts."""
        texts = []
        for name, value in self._overrides.items():
            spec = self.spec(name)
            if name not in _SPECIAL and spec is not None and spec.stage in ("Deprecated", "GA"):
                stage = "deprecated" if spec.stage == "Deprecated" else "GA"
                texts.append(
                    f"Setting {stage} feature gate {name}={str(value).lower()}. "
                    "It will be removed in a future release."
                )
        return texts

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FeatureGates):
            return NotImplemented
        mine, others = (self._version, self._overrides), (other._version, other._overrides)
        return mine == others and self.bugs == other.bugs

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"FeatureGates({self._version}, {self.flag()!r})"
