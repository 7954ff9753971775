"""Device selectors: the recorded answers of Kubernetes 1.36, and what recordings do not show."""

import json

import pytest
from recorded import DATA

from kubeskew.apimachinery.cel.device_features import DeviceFeatures
from kubeskew.apimachinery.cel.devices import compile_selector, device_value
from kubeskew.apimachinery.cel.errors import CompileError, EvaluationError
from kubeskew.apimachinery.cel.values import Semver

_RECORDED = DATA / "cel" / "device-selectors-1.36.jsonl"
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


@pytest.mark.parametrize(
    ("expression", "features", "error"),
    [
        ("dyn(true)", {}, "must evaluate to bool or the unknown type, not dyn"),
        ("dyn(true)", {"stored": True}, "must evaluate to bool or the unknown type, not dyn"),
        ("dyn(true)", {"list_attributes": True}, ""),
        ("dyn(true)", {"stored": True, "minor": 37, "lists_ungated": True}, ""),
        ("dyn(true)", {"minor": 37}, "must evaluate to bool or the unknown type, not dyn"),
        ("1 in [1] ? 1 : 2", {"minor": 37}, "must evaluate to bool or the unknown type, not int"),
        ("!device.allowMultipleAllocations", {"stored": True, "minor": 33}, "undefined field"),
        ("device.driver.includes('x')", {"stored": True, "minor": 35}, "undeclared reference to 'includes'"),
        ("device.driver.includes('x')", {"stored": True}, ""),
        ("device.driver.includes('x')", {"minor": 37}, "undeclared reference to 'includes'"),
    ],
)
def test_what_compiles(expression, features, error):
    """By release, gate, and whether the expression is stored."""
    found = compile_selector(expression, DeviceFeatures(**features)).error

    assert (error in str(found)) if error else found is None


@pytest.mark.parametrize(
    ("expression", "cost", "answer"),
    [
        ("device.attributes['dra.example.com'].names", 4, "CEL result of type list could not be converted"),
        ("device.attributes['dra.example.com'].names.includes('fish')", 4 + 48, True),
        ("device.attributes['dra.example.com'].names.size() == 2", 6, True),
        ("device.attributes['dra.example.com'].names.all(x, x != '')", 5 + (2 + 2) * 64, True),
        ("device.attributes['dra.example.com'].versions.exists(x, x.isGreaterThan(semver('1.5.0')))",
         5 + (3 + 4) * 64, True),
        ("'bird' in device.attributes['dra.example.com'].names", 4 + 64, True),
        ("device.attributes['dra.example.com'].number.exists(x, x > 0)", 5 + (3 + 3) * 64,
         "got 'types.Int', expected iterable type"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("gate", [False, True])
def test_lists_in_stored_expressions(expression, cost, answer, gate):
    """Since 1.37 regardless of the gate, at the costs of upstream's tests; in 1.36 only with it."""
    device = {
        "attributes": {
            "names": {"strings": ["fish", "bird"]},
            "versions": {"versions": ["1.0.0", "2.0.0"]},
            "number": {"int": 1},
        }
    }

    def run(minor):
        features = DeviceFeatures(list_attributes=gate, stored=True, minor=minor, lists_ungated=minor >= 37)
        selector = compile_selector(expression, features)
        yield selector.most_expensive
        yield selector.matches(device_value("dra.example.com", device, features))

    if not gate:
        with pytest.raises((CompileError, EvaluationError)):
            list(run(36))
    answers = run(37)
    assert next(answers) == cost
    if isinstance(answer, str):
        with pytest.raises(EvaluationError, match=answer):
            next(answers)
    else:
        assert next(answers) is answer


@pytest.mark.parametrize(
    ("expression", "dear"),
    [
        ("device.attributes['x'].services.matches('[^a]?sym')", True),
        ("device.driver.contains('a')", True),
        ("device.attributes['x'].services == 'sym'", False),
    ],
)
def test_without_sizes_everything_that_depends_on_the_length_of_a_text_is_dear(expression, dear):
    """With known bug 129661 only what does not depend on the size of an attribute costs little enough."""
    assert compile_selector(expression, DeviceFeatures(minor=32)).most_expensive < 100
    unsized = compile_selector(expression, DeviceFeatures(minor=32, unsized=True))
    assert (unsized.most_expensive > 1_000_000) is dear


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
