"""Bounds of numbers in custom resources that their own format cannot hold."""

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.features import Features
from kubeskew.apiserver.structuralschema.validation_errors import ValidationError
from kubeskew.apiserver.structuralschema.values import number_check


def test_bounds_that_do_not_fit_are_general_numbers() -> None:
    """Value and bound are shown as floating point where the bound is none of the type."""
    errors: list[ValidationError] = []
    check = number_check(
        {"type": "integer", "format": "int32", "maximum": 3_000_000_000},
        Features.of(FeatureGates(Version(36))).schemas,
    )
    assert check is not None

    check(3_000_000_001, ((None, "spec"), "a"), errors)

    assert errors[-1].value == 3_000_000_001.0
    assert isinstance(errors[-1].value, float)
    assert "less than or equal to 3e+09" in str(errors[-1].detail or errors[-1].text)
