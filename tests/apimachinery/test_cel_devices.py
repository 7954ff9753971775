"""Device selectors: the recorded answers of Kubernetes 1.36, and what recordings do not show."""

import json
from pathlib import Path

import pytest

from apimachinery.cel.device_features import DeviceFeatures
from apimachinery.cel.devices import compile_selector, device_value
from apimachinery.cel.errors import CompileError, EvaluationError
from apimachinery.cel.semver import Semver

_RECORDED = Path(__file__).parents[1] / "data" / "cel" / "device-selectors-1.36.jsonl"
_CASES = [json.loads(line) for line in _RECORDED.read_text(encoding="utf-8").splitlines()]


def _answer(case):
    gates = case["featureGates"]
    features = DeviceFeatures(
        consumable_capacity=gates["DRAConsumableCapacity"],
        list_attributes=gates["DRAListTypeAttributes"],
        stored=case["stored"],
    )
    selector = compile_selector(case["expression"], features)
    if selector.error is not None:
        return {"compileError": str(selector.error)}
    answer = {"maxCost": selector.most_expensive}
    try:
        answer["match"], cost = selector.evaluate(device_value(case["driver"], case, features))
    except EvaluationError as error:
        answer["matchError"], cost = str(error), error.cost
    if "actualCost" in case["expect"]:
        answer["actualCost"] = cost
    if "actualCostVaries" in case["expect"]:  # depends on the order of Go's maps
        answer["actualCostVaries"] = True
    return answer


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case["name"])
def test_recorded_selector(case):
    """A selector gives the recorded answer, estimate, cost and message."""
    assert _answer(case) == case["expect"]


def _matches(expression, **features):
    device = {
        "attributes": {"model": {"string": "A100"}, "example.com/numa": {"int": 1}},
        "capacity": {"memory": {"value": "40Gi"}},
    }
    settings = DeviceFeatures(**features)
    return compile_selector(expression, settings).matches(device_value("dra.example.com", device, settings))


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("device.attributes['dra.example.com'].model == 'A100'", id="driver-domain"),
        pytest.param("device.attributes['example.com'].numa == 1", id="other-domain"),
        pytest.param("device.attributes.exists(d, d == 'example.com')", id="domains"),
        pytest.param("device.capacity['dra.example.com'].memory == quantity('40960Mi')", id="quantity"),
        pytest.param("device.attributes['x'].?y.orValue(3) == 3", id="optional-of-unknown-domain"),
        pytest.param("sign(quantity('-1')) == -1", id="sign"),
        pytest.param(
            "has(device.attributes.nope) && !('nope' in device.attributes)", id="any-domain-is-found"
        ),
        pytest.param("device.capacity[?'nope'].hasValue()", id="any-domain-is-present"),
    ],
)
def test_selector_holds(expression):
    """Unqualified names belong to the driver's domain; quantities compare by value."""
    assert _matches(expression)


def test_field_of_a_disabled_feature_does_not_compile():
    """Without DRAConsumableCapacity a new expression cannot name allowMultipleAllocations."""
    with pytest.raises(CompileError, match="undefined field 'allowMultipleAllocations'"):
        _matches("device.allowMultipleAllocations")


def test_field_of_a_disabled_feature_stays_usable_when_stored():
    """A stored expression may use what was added since."""
    assert _matches("!device.allowMultipleAllocations", stored=True)


def test_selector_is_compiled_once():
    """Equal expressions in equal environments share one program."""
    first = compile_selector("device.driver == 'a'", DeviceFeatures())

    assert compile_selector("device.driver == 'a'", DeviceFeatures()) is first


def test_missing_key_is_a_runtime_error():
    """An unknown attribute fails the evaluation, not the compilation."""
    with pytest.raises(EvaluationError, match=r"^no such key: nope$"):
        _matches("device.attributes['dra.example.com'].nope == 1")


@pytest.mark.parametrize(
    ("lower", "higher"),
    [
        ("1.0.0-alpha", "1.0.0-alpha.1"),
        ("1.0.0-2", "1.0.0-10"),
        ("1.0.0-10", "1.0.0-a"),
        ("1.0.0-a", "1.0.0"),
    ],
)
def test_semver_order(lower, higher):
    """Pre-releases come before the release; numeric identifiers before others, by number."""
    assert Semver.parse(lower) < Semver.parse(higher)
