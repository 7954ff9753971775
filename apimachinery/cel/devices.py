"""CEL selectors of devices (`resource.k8s.io`): one variable `device`, a boolean result.

Source: k8s.io/dynamic-resource-allocation/cel/compile.go, 1.37. Devices have the v1 shape.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from kubeskew.apimachinery.cel import types
from kubeskew.apimachinery.cel.costs import CallEstimate, fixed
from kubeskew.apimachinery.cel.declarations import Declared, declared_map
from kubeskew.apimachinery.cel.device_features import DeviceFeatures
from kubeskew.apimachinery.cel.environments import BINDINGS, Environment, Library, environment
from kubeskew.apimachinery.cel.errors import CompileError, EvaluationError, InstantiationError
from kubeskew.apimachinery.cel.library.kubernetes import SEMVERS
from kubeskew.apimachinery.cel.overloads import overload
from kubeskew.apimachinery.cel.program import Program, compile_expression
from kubeskew.apimachinery.cel.values import Semver, same, type_name
from kubeskew.apimachinery.quantity import Quantity

_SINGLE = ("bool", "int", "string", "version")
_LISTS = ("bools", "ints", "strings", "versions")

_VALUE_LENGTH, _DOMAIN_LENGTH, _IDENTIFIER_LENGTH, _PER_DEVICE = 64, 63, 32, 32
_VALUES_PER_LIST = 48  # attribute values per device
_COST_LIMIT = 1_000_000


def _includes(value: Any, wanted: Any) -> bool:
    """A scalar counts as a list with one item; raises EvaluationError for a list of more than 48 values."""
    if isinstance(value, list) and len(value) > _VALUES_PER_LIST:
        raise EvaluationError(
            f"'includes' function cannot be applied to lists longer than {_VALUES_PER_LIST} values"
        )
    return any(same(item, wanted) for item in value) if isinstance(value, list) else same(value, wanted)


_INCLUDES = overload("dyn.includes(dyn) bool", _includes, "includes", loose=True)
_ATTRIBUTES_OF_LISTS = Library(0, (_INCLUDES,))
_VERSIONS = Library(0, SEMVERS)  # devices had them from the start, other expressions later


@lru_cache(maxsize=32)
def device_environment(features: DeviceFeatures) -> Environment:
    base = environment(features.minor, stored=features.stored)
    libraries = [BINDINGS, _VERSIONS]
    if features.knows_includes:
        libraries.append(_ATTRIBUTES_OF_LISTS)
    return base.extended(
        {"device": _device(features)},
        libraries=tuple(libraries),
        overrides={"includes": lambda _target, _arguments: CallEstimate(fixed(_VALUES_PER_LIST))},
    )


def _attribute_type(features: DeviceFeatures) -> types.Type:
    return types.DYN if features.dynamic_attributes else types.ANY


def _device(features: DeviceFeatures) -> Declared:
    attribute = Declared(_attribute_type(features), _VALUE_LENGTH)
    domain, identifier = Declared(types.STRING, _DOMAIN_LENGTH), Declared(types.STRING, _IDENTIFIER_LENGTH)
    quantity = Declared(types.object_type("kubernetes.Quantity", {}))
    attributes = Declared(
        types.map_of(types.STRING, attribute.type),
        _PER_DEVICE,
        key=identifier,
        element=attribute,
        any_field=attribute,  # all attributes have one maximal size
    )
    capacities = declared_map(identifier, quantity, _PER_DEVICE)
    fields = {
        "driver": Declared(types.STRING, _DOMAIN_LENGTH),
        "attributes": declared_map(domain, attributes, _PER_DEVICE),
        "capacity": declared_map(domain, capacities, _PER_DEVICE),
    }
    known: dict[str, Any] = dict(fields)
    if features.knows_sharing:
        known["allowMultipleAllocations"] = types.BOOL  # upstream's estimate does not know its size
    kind = types.object_type("kubernetes.DRADevice", known)
    return Declared(kind, sized=False) if features.unsized else Declared(kind, 0, fields)


class _Domains(Mapping[str, Mapping[str, Any]]):
    """Values by domain and name; an unknown domain is empty, not an error."""

    cel_type = "map"

    def __init__(self, domains: Mapping[str, Mapping[str, Any]]) -> None:
        self._domains = domains

    def __getitem__(self, domain: str) -> Mapping[str, Any]:
        return self._domains.get(domain) or {}

    cel_find = __getitem__  # upstream finds every domain; only `in` shows which the device has

    def __contains__(self, domain: object) -> bool:
        return domain in self._domains

    def __iter__(self) -> Iterator[str]:
        return iter(self._domains)

    def __len__(self) -> int:
        return len(self._domains)


def device_value(driver: str, device: Mapping[str, Any], features: DeviceFeatures) -> dict[str, Any]:
    """Builds `device` from a device of a slice; raises EvaluationError for an attribute that cannot be
    used."""
    attributes: dict[str, dict[str, Any]] = {}
    failures: list[str] = []
    for name, attribute in (device.get("attributes") or {}).items():
        domain, identifier = _split(name, driver)
        try:
            attributes.setdefault(domain, {})[identifier] = _attribute(attribute, features)
        except EvaluationError as error:
            failures.append(f"attribute {name}: {error}")
    if failures:
        # Upstream names the first attribute that Go's map order gives: with several it is chance.
        raise EvaluationError(failures[0] if len(failures) == 1 else failures[0].partition(": ")[2])
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
    if features.list_values:
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
    """A compiled selector, or the reason why it does not compile."""

    def __init__(self, expression: str, features: DeviceFeatures) -> None:
        self.expression = expression
        self.error: CompileError | None = None
        self._program: Program | None = None
        try:
            self._program = compile_expression(expression, device_environment(features))
            result = self._program.result
        except InstantiationError as error:
            self.error, result = error, error.result
        except CompileError as error:
            self.error = error
            return
        if result not in (types.BOOL, _attribute_type(features)):
            self._program = None
            self.error = CompileError(f"must evaluate to bool or the unknown type, not {result}")

    @property
    def most_expensive(self) -> int:
        """Upper bound of the cost over all devices; raises CompileError."""
        return self._compiled().estimate()[1]

    def _compiled(self) -> Program:
        if self._program is None:
            raise self.error or CompileError("not compiled")
        return self._program

    def matches(self, device: Mapping[str, Any]) -> bool:
        """Takes a `device_value`; raises CompileError or EvaluationError."""
        return self.evaluate(device)[0]

    def evaluate(self, device: Mapping[str, Any], limit: int = _COST_LIMIT) -> tuple[bool, int]:
        """Result and cost; raises CompileError or EvaluationError."""
        result, cost = self._compiled().evaluate({"device": device}, limit)
        if isinstance(result, bool):
            return result, cost
        kind = type_name(result)
        failure = EvaluationError(
            f"CEL result of type {kind} could not be converted to bool: "
            f"unsupported type conversion from '{kind}' to bool"
        )
        failure.cost = cost
        raise failure


@lru_cache(maxsize=4096)
def compile_selector(expression: str, features: DeviceFeatures) -> Selector:
    """Compiles an expression once; a failure is kept in the selector."""
    return Selector(expression, features)
