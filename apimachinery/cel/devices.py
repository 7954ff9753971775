"""CEL selectors of devices (`resource.k8s.io`): one variable `device`, a boolean result.

Source: k8s.io/dynamic-resource-allocation/cel/compile.go, 1.36. Devices have the v1 shape.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from apimachinery.cel import kubernetes, standard
from apimachinery.cel.errors import CompileError, EvaluationError
from apimachinery.cel.overloads import Functions
from apimachinery.cel.program import Program, compile_program
from apimachinery.cel.semver import Semver
from apimachinery.cel.values import type_name
from apimachinery.quantity import Quantity

_BASE = (
    *standard.STANDARD,
    *standard.STRINGS,
    *standard.LISTS,
    *standard.OPTIONALS,
    *kubernetes.QUANTITIES,
    *kubernetes.SEMVERS,
    *kubernetes.NETWORKS,
    *kubernetes.FORMATS,
)
_SINGLE = ("bool", "int", "string", "version")
_LISTS = ("bools", "ints", "strings", "versions")


@dataclass(frozen=True, slots=True)
class DeviceFeatures:
    """What the environment of a selector has; `stored` expressions may use all of it."""

    consumable_capacity: bool = False
    list_attributes: bool = False
    stored: bool = False

    @property
    def functions(self) -> Functions:
        return _WITH_LISTS if self.list_attributes or self.stored else _WITHOUT_LISTS

    @property
    def fields(self) -> frozenset[str]:
        return _FIELDS | {"allowMultipleAllocations"} if self.consumable_capacity or self.stored else _FIELDS


_FIELDS = frozenset({"driver", "attributes", "capacity"})
_WITHOUT_LISTS = Functions(_BASE)
_WITH_LISTS = Functions((*_BASE, *kubernetes.DEVICE_FUNCTIONS))


class _Domains(Mapping[str, Mapping[str, Any]]):
    """Values by domain and name; an unknown domain is empty, not an error."""

    cel_type = "map"

    def __init__(self, domains: Mapping[str, Mapping[str, Any]]) -> None:
        self._domains = domains

    def __getitem__(self, domain: str) -> Mapping[str, Any]:
        return self._domains.get(domain) or {}

    def __contains__(self, domain: object) -> bool:
        return domain in self._domains

    def __iter__(self) -> Iterator[str]:
        return iter(self._domains)

    def __len__(self) -> int:
        return len(self._domains)


def device_value(driver: str, device: Mapping[str, Any], features: DeviceFeatures) -> dict[str, Any]:
    """The value of `device` for a device of a slice; raises EvaluationError for an unusable attribute."""
    attributes: dict[str, dict[str, Any]] = {}
    for name, attribute in (device.get("attributes") or {}).items():
        domain, identifier = _split(name, driver)
        attributes.setdefault(domain, {})[identifier] = _attribute(attribute, features)
    capacity: dict[str, dict[str, Any]] = {}
    for name, value in (device.get("capacity") or {}).items():
        domain, identifier = _split(name, driver)
        capacity.setdefault(domain, {})[identifier] = Quantity.parse(str(value["value"]))
    return {
        "driver": driver,
        "attributes": _Domains(attributes),
        "capacity": _Domains(capacity),
        "allowMultipleAllocations": bool(device.get("allowMultipleAllocations")),
    }


def _split(name: str, driver: str) -> tuple[str, str]:
    domain, slash, identifier = name.partition("/")
    return (domain, identifier) if slash else (driver, name)


def _attribute(attribute: Mapping[str, Any], features: DeviceFeatures) -> Any:
    for kind in _SINGLE:
        if attribute.get(kind) is not None:
            return _version(attribute[kind]) if kind == "version" else attribute[kind]
    if features.list_attributes:
        for kind in _LISTS:
            if attribute.get(kind) is not None:
                values = attribute[kind]
                return [_version(value) for value in values] if kind == "versions" else list(values)
    raise EvaluationError("unsupported attribute value")


def _version(text: str) -> Semver:
    try:
        return Semver.parse(text)
    except ValueError as error:
        raise EvaluationError(f"parse semantic version: {error}") from None


class Selector:
    """A compiled selector, or the reason why it is none."""

    def __init__(self, expression: str, features: DeviceFeatures) -> None:
        self.expression = expression
        self.error: CompileError | None = None
        self._program: Program | None = None
        try:
            self._program = compile_program(expression, features.functions, {"device": features.fields})
        except CompileError as error:
            self.error = error

    def matches(self, device: Mapping[str, Any]) -> bool:
        """Whether the selector holds for a `device_value`; raises CompileError or EvaluationError."""
        if self._program is None:
            raise self.error or CompileError("not compiled")
        result = self._program({"device": device})
        if not isinstance(result, bool):
            kind = type_name(result)
            raise EvaluationError(
                f"CEL result of type {kind} could not be converted to bool: "
                f"unsupported type conversion from '{kind}' to bool"
            )
        return result


@lru_cache(maxsize=4096)
def compile_selector(expression: str, features: DeviceFeatures) -> Selector:
    """The selector of an expression, compiled once."""
    return Selector(expression, features)
