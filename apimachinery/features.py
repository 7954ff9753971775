"""Tables of features: what differs between releases, feature gates and known bugs, once per component.

    class JobFeatures(FeatureTable):
        managed_by: bool = gate("JobManagedBy")
        counts_marked: bool = until(26)  # jobs without the annotation are counted by their existing pods
        delays_final_condition: bool = since(31) & (gate("JobManagedBy") | gate("JobPodReplacementPolicy"))
        keeps_backoff: bool = bug("k8s-132109")

    features = JobFeatures.of(gates)

A component builds its table once, when it starts, and reads named values from there. Nothing below a table
compares minors or asks for a gate (compare pkg/scheduler/framework/plugins/feature of kube-scheduler). Every
rule also names the facts that decide it, for `kubeskew features`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Self, dataclass_transform

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.known_bugs import known_bugs
from kubeskew.apimachinery.versions import entry

RELEASE, GATE, BUG = "release", "gate", "bug"


class Reason(NamedTuple):
    """A fact that decides a value. `kind` is release, gate or bug; `text` is for people."""

    kind: str
    text: str


class Rule(ABC):
    """The value of one field, by version, gates and known bugs of a component.

    Its text is the rule as people write it: `since 1.31 and gate JobManagedBy`.
    """

    @abstractmethod
    def value(self, gates: FeatureGates) -> Any:
        """Called once per field when a table is built."""

    @abstractmethod
    def reasons(self, gates: FeatureGates) -> tuple[Reason, ...]:
        """The facts that made the value what it is, without those that could not have changed it."""

    def tables(self) -> "tuple[type[FeatureTable], ...]":
        """The tables that the value may consist of."""
        return ()


class Condition(Rule):
    """A rule that is true or false; `&`, `|` and `~` combine conditions."""

    @abstractmethod
    def value(self, gates: FeatureGates) -> bool: ...

    def __and__(self, other: "Condition") -> "Condition":
        return _All((self, other))

    def __or__(self, other: "Condition") -> "Condition":
        return _Any((self, other))

    def __invert__(self) -> "Condition":
        return _Not(self)


@dataclass(frozen=True, slots=True)
class _Since(Condition):
    minor: int

    def value(self, gates: FeatureGates) -> bool:
        return gates.version.base.minor >= self.minor

    def reasons(self, gates: FeatureGates) -> tuple[Reason, ...]:
        relation = "at or after" if self.value(gates) else "before"
        return (Reason(RELEASE, f"{gates.version} is {relation} 1.{self.minor}"),)

    def __str__(self) -> str:
        return f"since 1.{self.minor}"


@dataclass(frozen=True, slots=True)
class _Until(Condition):
    minor: int

    def value(self, gates: FeatureGates) -> bool:
        return gates.version.base.minor <= self.minor

    def reasons(self, gates: FeatureGates) -> tuple[Reason, ...]:
        relation = "not after" if self.value(gates) else "after"
        return (Reason(RELEASE, f"{gates.version} is {relation} 1.{self.minor}"),)

    def __str__(self) -> str:
        return f"until 1.{self.minor}"


@dataclass(frozen=True, slots=True)
class _Only(Condition):
    minor: int

    def value(self, gates: FeatureGates) -> bool:
        return gates.version.base.minor == self.minor

    def reasons(self, gates: FeatureGates) -> tuple[Reason, ...]:
        relation = "is of" if self.value(gates) else "is not of"
        return (Reason(RELEASE, f"{gates.version} {relation} 1.{self.minor}"),)

    def __str__(self) -> str:
        return f"only 1.{self.minor}"


@dataclass(frozen=True, slots=True)
class _Preview(Condition):
    name: str

    def value(self, gates: FeatureGates) -> bool:
        return gates.version.preview == self.name

    def reasons(self, gates: FeatureGates) -> tuple[Reason, ...]:
        relation = "is" if self.value(gates) else "is not"
        return (Reason(RELEASE, f"{gates.version} {relation} the preview {self.name}"),)

    def __str__(self) -> str:
        return f"preview {self.name}"


@dataclass(frozen=True, slots=True)
class _Gate(Condition):
    name: str

    def value(self, gates: FeatureGates) -> bool:
        return gates.enabled(self.name)

    def reasons(self, gates: FeatureGates) -> tuple[Reason, ...]:
        setting = gates.setting_of(self.name)
        reason = Reason(GATE, f"gate {self.name} {self._state(gates, setting)}")
        return (reason, *_Bug(setting).reasons(gates)) if setting in known_bugs() else (reason,)

    def _state(self, gates: FeatureGates, setting: str) -> str:
        state = "is on" if self.value(gates) else "is off"
        spec = gates.spec(self.name)
        if setting in known_bugs():
            return f"{state} with a known bug"
        if setting:
            return f"{state}, set by {'flag' if setting == self.name else setting}"
        if spec is None:
            return f"is not in {gates.version}"
        locked = ", locked" if spec.locked else ""
        return f"{state} ({spec.stage}{locked})"

    def __str__(self) -> str:
        return f"gate {self.name}"


@dataclass(frozen=True, slots=True)
class _Known(Condition):
    name: str

    def value(self, gates: FeatureGates) -> bool:
        return gates.knows(self.name)

    def reasons(self, gates: FeatureGates) -> tuple[Reason, ...]:
        relation = "is" if self.value(gates) else "is not"
        return (Reason(GATE, f"gate {self.name} {relation} among the flags of {gates.version}"),)

    def __str__(self) -> str:
        return f"flag {self.name}"


@dataclass(frozen=True, slots=True)
class _Acts(Condition):
    name: str

    def value(self, gates: FeatureGates) -> bool:
        return gates.spec(self.name) is not None

    def reasons(self, gates: FeatureGates) -> tuple[Reason, ...]:
        relation = "is" if self.value(gates) else "is not"
        return (Reason(GATE, f"gate {self.name} {relation} in {gates.version}"),)

    def __str__(self) -> str:
        return f"gate {self.name} exists"


@dataclass(frozen=True, slots=True)
class _Bug(Condition):
    id: str

    def value(self, gates: FeatureGates) -> bool:
        return gates.bugs.present(self.id)

    def reasons(self, gates: FeatureGates) -> tuple[Reason, ...]:
        if self.id in gates.bugs.settings:
            return (Reason(BUG, f"bug {self.id} is switched {'on' if self.value(gates) else 'off'}"),)
        relation = "is" if self.value(gates) else "is not"
        releases = known_bugs()[self.id].affected
        return (Reason(BUG, f"bug {self.id} {relation} in {gates.version} (it is in: {releases})"),)

    def __str__(self) -> str:
        return f"bug {self.id}"


@dataclass(frozen=True, slots=True)
class _Fix(_Bug):
    def value(self, gates: FeatureGates) -> bool:
        return gates.bugs.mended(self.id)

    def reasons(self, gates: FeatureGates) -> tuple[Reason, ...]:
        if gates.version.preview:
            return (Reason(BUG, f"{gates.version} is a preview, older than the fix of {self.id}"),)
        if self.id in gates.bugs.settings:
            return (Reason(BUG, f"bug {self.id} is switched {'off' if self.value(gates) else 'on'}"),)
        relation = "has" if self.value(gates) else "has not"
        releases = known_bugs()[self.id].affected
        return (Reason(BUG, f"{gates.version} {relation} the fix of {self.id} (the bug is in: {releases})"),)

    def __str__(self) -> str:
        return f"fix of {self.id}"


@dataclass(frozen=True, slots=True)
class _All(Condition):
    parts: tuple[Condition, ...]

    def value(self, gates: FeatureGates) -> bool:
        return all(part.value(gates) for part in self.parts)

    def reasons(self, gates: FeatureGates) -> tuple[Reason, ...]:
        return _deciding(self.parts, gates, unanimous=True)

    def __str__(self) -> str:
        return " and ".join(f"({part})" if isinstance(part, _Any) else str(part) for part in self.parts)


@dataclass(frozen=True, slots=True)
class _Any(Condition):
    parts: tuple[Condition, ...]

    def value(self, gates: FeatureGates) -> bool:
        return any(part.value(gates) for part in self.parts)

    def reasons(self, gates: FeatureGates) -> tuple[Reason, ...]:
        return _deciding(self.parts, gates, unanimous=False)

    def __str__(self) -> str:
        return " or ".join(f"({part})" if isinstance(part, _All) else str(part) for part in self.parts)


def _deciding(parts: tuple[Condition, ...], gates: FeatureGates, *, unanimous: bool) -> tuple[Reason, ...]:
    """Reasons of the first part that decides alone; of every part where none does (`unanimous` is and's)."""
    for part in parts:
        if part.value(gates) is not unanimous:
            return part.reasons(gates)
    return tuple(dict.fromkeys(reason for part in parts for reason in part.reasons(gates)))


@dataclass(frozen=True, slots=True)
class _Not(Condition):
    condition: Condition

    def value(self, gates: FeatureGates) -> bool:
        return not self.condition.value(gates)

    def reasons(self, gates: FeatureGates) -> tuple[Reason, ...]:
        return self.condition.reasons(gates)

    def __str__(self) -> str:
        combined = isinstance(self.condition, _All | _Any)
        return f"not ({self.condition})" if combined else f"not {self.condition}"


@dataclass(frozen=True, slots=True)
class _Constant(Condition):
    constant: Any

    def value(self, gates: FeatureGates) -> Any:
        return self.constant

    def reasons(self, gates: FeatureGates) -> tuple[Reason, ...]:
        return ()

    def __str__(self) -> str:
        return _shown(self.constant)


@dataclass(frozen=True, slots=True)
class _ByRelease(Rule):
    """The entry of the newest minor in the table that is not newer than the component's."""

    table: Mapping[int, Rule]

    def value(self, gates: FeatureGates) -> Any:
        return self.table[self._entry(gates)].value(gates)

    def reasons(self, gates: FeatureGates) -> tuple[Reason, ...]:
        first = self._entry(gates)
        relation = "at or after" if first else "before"
        border = first or min(minor for minor in self.table if minor)
        release = Reason(RELEASE, f"{gates.version} is {relation} 1.{border}")
        return (release, *self.table[first].reasons(gates))

    def _entry(self, gates: FeatureGates) -> int:
        return entry({first: first for first in self.table}, gates.version.base.minor)

    def __str__(self) -> str:
        entries = (f"{rule} since 1.{minor}" if minor else str(rule) for minor, rule in self.table.items())
        return ", ".join(entries)


@dataclass(frozen=True, slots=True)
class _Choice(Rule):
    condition: Condition
    then: Rule
    otherwise: Rule

    def value(self, gates: FeatureGates) -> Any:
        return self._chosen(gates).value(gates)

    def reasons(self, gates: FeatureGates) -> tuple[Reason, ...]:
        both = (*self.condition.reasons(gates), *self._chosen(gates).reasons(gates))
        return tuple(dict.fromkeys(both))

    def tables(self) -> "tuple[type[FeatureTable], ...]":
        return (*self.then.tables(), *self.otherwise.tables())

    def _chosen(self, gates: FeatureGates) -> Rule:
        return self.then if self.condition.value(gates) else self.otherwise

    def __str__(self) -> str:
        return f"{self.then} if {self.condition}, else {self.otherwise}"


@dataclass(frozen=True, slots=True)
class _Made(Rule):
    """A call of `make` with arguments that are rules themselves."""

    make: Any
    arguments: tuple[Rule, ...]
    named: Mapping[str, Rule]

    def value(self, gates: FeatureGates) -> Any:
        arguments = [rule.value(gates) for rule in self.arguments]
        return self.make(*arguments, **{name: rule.value(gates) for name, rule in self.named.items()})

    def reasons(self, gates: FeatureGates) -> tuple[Reason, ...]:
        rules = (*self.arguments, *self.named.values())
        return tuple(dict.fromkeys(reason for rule in rules for reason in rule.reasons(gates)))

    def __str__(self) -> str:
        named = (f"{name}: {rule}" for name, rule in self.named.items())
        return f"{self.make.__name__}({'; '.join([*map(str, self.arguments), *named])})"


@dataclass(frozen=True, slots=True)
class _Version(Rule):
    """The component's version, or its minor."""

    minor: bool

    def value(self, gates: FeatureGates) -> Any:
        return gates.version.base.minor if self.minor else gates.version

    def reasons(self, gates: FeatureGates) -> tuple[Reason, ...]:
        return (Reason(RELEASE, f"the version is {gates.version}"),)

    def __str__(self) -> str:
        return "the minor" if self.minor else "the version"


@dataclass(frozen=True, slots=True)
class _Part(Rule):
    table: "type[FeatureTable]"

    def value(self, gates: FeatureGates) -> Any:
        return self.table.of(gates)

    def reasons(self, gates: FeatureGates) -> tuple[Reason, ...]:
        return ()

    def tables(self) -> "tuple[type[FeatureTable], ...]":
        return (self.table,)

    def __str__(self) -> str:
        return f"the table {self.table.__name__}"


def _rule(value: Any) -> Any:
    return value if isinstance(value, Rule) else _Constant(value)


def _shown(value: Any) -> str:
    return value.__name__ if callable(value) and hasattr(value, "__name__") else repr(value)


# The vocabulary of tables. Each returns a rule; their type is Any, because a field has the type of its value.


def since(minor: int) -> Any:
    """True from 1.`minor` on."""
    return _Since(minor)


def until(minor: int) -> Any:
    """True up to and with 1.`minor`."""
    return _Until(minor)


def only(minor: int) -> Any:
    """True in 1.`minor` alone."""
    return _Only(minor)


def preview(name: str) -> Any:
    """True in the preview release of that design; a preview also has the minor that it was drafted for."""
    return _Preview(name)


def gate(name: str) -> Any:
    """True where the gate is on. A release that does not have the gate yet has it off."""
    return _Gate(name)


def has_flag(name: str) -> Any:
    """True where `--feature-gates` takes the name."""
    return _Known(name)


def has_gate(name: str) -> Any:
    """True where the gate acts, though the flag may no longer take its name."""
    return _Acts(name)


def unless_off(name: str) -> Any:
    """True unless the gate is off: once the flag no longer takes its name, the feature stays on."""
    return ~_Known(name) | _Gate(name)


def bug(id_: str) -> Any:
    """True where the component has the known bug, by its release or by `--bugs`."""
    return _Bug(id_)


def fixed(id_: str) -> Any:
    """True where the component has the fix. Previews, which have no known bugs, are older than all fixes."""
    return _Fix(id_)


def always(value: Any) -> Any:
    """`value` in every release, for parts of other rules."""
    return _Constant(value)


def by_release(table: Mapping[int, Any]) -> Any:
    """The entry of the newest minor in the table that is not newer than the component's.

    Entries are rules or plain values; the key 0 stands for the oldest release.
    """
    return _ByRelease({minor: _rule(value) for minor, value in sorted(table.items())})


def choose(condition: Any, then: Any, otherwise: Any) -> Any:
    """`then` where the condition holds. Both may be rules or plain values."""
    return _Choice(condition, _rule(then), _rule(otherwise))


def made(make: Any, *arguments: Any, **named: Any) -> Any:
    """`make(…)`, called with the values of rules and with plain values."""
    return _Made(make, tuple(map(_rule, arguments)), {name: _rule(rule) for name, rule in named.items()})


def part(table: "type[FeatureTable]", where: Any = None) -> Any:
    """A table within a table; None in its place where the condition `where` does not hold."""
    return _Part(table) if where is None else _Choice(where, _Part(table), _Constant(None))


VERSION: Any = _Version(minor=False)
MINOR: Any = _Version(minor=True)


class Explained(NamedTuple):
    """A row of an explained table. `name` has the names of enclosing tables before it, with dots."""

    name: str
    value: Any
    rule: str
    reasons: tuple[Reason, ...]


@dataclass_transform(frozen_default=True, eq_default=False, kw_only_default=True)
class FeatureTable:
    """The base of tables: each annotated field of a subclass has a rule as its default.

    Instances are frozen dataclasses. They compare and hash by identity, which makes them cheap keys of
    caches; `of` returns the same one for equal gates.
    """

    field_rules: ClassVar[Mapping[str, Rule]]

    def __init_subclass__(cls) -> None:
        names = [name for name, kind in cls.__annotations__.items() if "ClassVar" not in str(kind)]
        cls.field_rules = {name: _rule(cls.__dict__[name]) for name in names}
        for name in names:
            delattr(cls, name)  # no default: whoever makes an instance by hand says every value
        dataclass(frozen=True, eq=False, kw_only=True)(cls)

    @classmethod
    def of(cls, gates: FeatureGates) -> Self:
        table: Any = cls
        built: Self = _build(table, gates)
        return built

    @classmethod
    def explain(cls, gates: FeatureGates, prefix: str = "") -> Iterator[Explained]:
        """Yields the rows of the table, those of parts in their place, in the order of the fields."""
        built = cls.of(gates)
        for name, rule in cls.field_rules.items():
            value = getattr(built, name)
            if isinstance(value, FeatureTable):
                yield from value.explain(gates, f"{prefix}{name}.")
            else:
                yield Explained(f"{prefix}{name}", value, str(rule), rule.reasons(gates))


@lru_cache(maxsize=4096)
def _build(table: Any, gates: FeatureGates) -> Any:
    return table(**{name: rule.value(gates) for name, rule in table.field_rules.items()})
