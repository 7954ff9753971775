"""Selectors of the model `metadata`: KEP-4381 as drafted."""

import pytest

from kubeskew.apimachinery.cel.errors import CompileError, EvaluationError
from kubeskew.apimachinery.cel.semantic_metadata import compile_selector, metadata_matches

# the draft's CardA
CARD = {
    "versions": [{"name": "API", "version": "v3.2.1"}, {"name": "Driver", "version": "1.10.0-rc.1"}],
    "labels": [{"name": "SupportsPowerSaving"}, {"name": "Color", "value": "Red"}],
    "values": [{"name": "LengthInCentimeters", "quantity": 100}, {"name": "Zero"}],
}


@pytest.mark.parametrize(("selector", "expected"), [
    ("versions['API'] >= 'v1.0.0' && labels.has('SupportsPowerSaving')", True),  # the draft's
    ("versions['API'] >= '1.0.0'", True),
    ("versions['API'] >= 'v3.2.1'", True),
    ("versions['API'] > 'v3.2.1'", False),
    ("versions['API'] <= 'v3.2.1'", True),
    ("versions['API'] < 'v3.10.0'", True),
    ("versions['API'] == '3.2.1'", True),
    ("versions['API'] == 'v3.2.1+build'", True),
    ("versions['API'] != 'v3.2.1'", False),
    ("'v4.0.0' > versions['API']", True),
    ("'v4.0.0' <= versions['API']", False),
    ("'v3.2.1' == versions['API'] && !('v3.2.1' != versions['API'])", True),
    ("versions['Driver'] < '1.10.0'", True),
    ("versions['API'] > versions['Driver']", True),
    ("versions['API'] == versions['Driver']", False),
    ("versions['API'].isGreaterThan(semver('3.0.0')) && versions['API'].major() == 3", True),
    ("dyn(versions['API']) >= 'v1.0.0'", True),
    ("versions.has('API') && !versions.has('Kernel')", True),
    ("labels['Color'] == 'Red'", True),
    ("labels['Color'] > 'Blue'", True),
    ("labels.has('Colour')", False),
    ("'Color' in labels", True),
    ("labels['SupportsPowerSaving'] == ''", True),
    ("values['LengthInCentimeters'] > 5", True),
    ("values['LengthInCentimeters'] * 2 == 200 && values['Zero'] == 0", True),
    ("values.has('Width') && values['Width'] > 5", False),
    ("values.exists(name, values[name] == 100)", True),
    ("true", True),
])  # fmt: skip
def test_what_selectors_select(selector, expected):
    """Versions are ordered by semantic versioning, with or without a `v`; labels are text, values numbers."""
    assert metadata_matches(compile_selector(selector), CARD) is expected


@pytest.mark.parametrize(("selector", "message"), [
    ("versions['Kernel'] >= 'v1.0.0'", "no such key: Kernel"),
    ("labels['Colour'] == 'Red'", "no such key: Colour"),
    ("versions['API'] >= labels['Color']", 'invalid version "Red": No Major.Minor.Patch elements found'),
    ("values['LengthInCentimeters'] / values['Zero'] > 1", "division by zero"),
])  # fmt: skip
def test_what_cannot_be_evaluated(selector, message):
    """A name that is not listed is an error, not a value; so is text that is no version."""
    with pytest.raises(EvaluationError, match=message):
        metadata_matches(compile_selector(selector), CARD)


@pytest.mark.parametrize(("selector", "message"), [
    ("versions['API'] >= 1", "found no matching overload for '_>=_' applied to '(kubernetes.Semver, int)'"),
    ("labels['Color'] == 5", "found no matching overload for '_==_' applied to '(string, int)'"),
    ("values['Length'] == 'x'", "found no matching overload for '_==_' applied to '(int, string)'"),
    ("versions['API'] >= 'v1'", 'invalid version "v1": No Major.Minor.Patch elements found'),
    ("'1.0' != versions['API']", 'invalid version "1.0": No Major.Minor.Patch elements found'),
    ("values['Length']", "must evaluate to bool"),
    ("attributes['x']", "undeclared reference to 'attributes'"),
    ("labels.has(1)", "found no matching overload for 'has'"),
    ("versions[", "Syntax error"),
    ("", "Syntax error"),
])  # fmt: skip
@pytest.mark.parametrize("stored", [False, True])
def test_what_does_not_compile(selector, message, stored):
    """Types are checked before any resource is looked at, and literal versions are read."""
    with pytest.raises(CompileError) as raised:
        compile_selector(selector, stored=stored)
    assert message in str(raised.value)


def test_an_unreadable_version_of_a_resource_is_an_error():
    """A resource whose version cannot be read does not match silently."""
    broken = {"versions": [{"name": "API", "version": "three"}]}
    with pytest.raises(EvaluationError, match='invalid version "three"'):
        metadata_matches(compile_selector("true"), broken)
