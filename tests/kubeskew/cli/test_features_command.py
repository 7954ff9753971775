"""`kubeskew features`: what is on at a version, and why."""

import json

import pytest
from click.testing import CliRunner

from kubeskew.apimachinery.features import FeatureTable
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import SUPPORTED
from kubeskew.cli.commands.features import TABLES, explained, features
from kubeskew.cluster.failures import UserError


def rows(*arguments: str) -> dict[str, dict]:
    result = CliRunner().invoke(features, [*arguments, "-o", "json"], catch_exceptions=False)
    assert result.exit_code == 0
    return {row["name"]: row for row in json.loads(result.output)}


def test_a_feature_comes_with_the_gate_release_or_bug_that_decides_it():
    """Each value says which fact made it so."""
    found = rows("--component", "scheduler", "--version", "1.34")

    assert found["extended_resources"]["value"] is False
    assert found["extended_resources"]["why"] == [
        {"kind": "gate", "text": "gate DRAExtendedResource is off (Alpha)"}
    ]
    assert [why["kind"] for why in found["allocator.knows_binding"]["why"]] == ["release"]
    assert [why["kind"] for why in found["ignores_new_classes"]["why"]] == ["bug"]


def test_gates_and_bugs_set_by_hand_count():
    """A gate or a bug that a flag sets decides, and is named."""
    flags = ("--feature-gates", "DRAExtendedResource=true", "--bugs", "k8s-134991=off")
    found = rows("--component", "scheduler", "--version", "1.34", *flags)

    assert found["extended_resources"]["value"] is True
    assert found["extended_resources"]["why"][-1]["text"] == "gate DRAExtendedResource is on, set by flag"
    assert found["ignores_new_classes"]["value"] is False


def test_two_versions_are_compared():
    """With another version only what differs is shown, with both values."""
    found = rows("--component", "kubelet", "--version", "1.33", "--to", "1.34")

    assert found["dra_validates_first"]["1.33"]["value"] is False
    assert found["dra_validates_first"]["1.34"]["value"] is True
    assert all(row["1.33"] is None or row["1.33"]["value"] != row["1.34"]["value"] for row in found.values())


@pytest.mark.parametrize(
    ("version", "tables"),
    [("1.25+kep3063", set()), ("1.29", {"dra.classic"}), ("1.36", {"dra"})],
)
def test_tables_are_shown_where_components_read_them(version, tables):
    """The checkpoint's format is that of the release's own generation of DRA."""
    found = {name.rpartition(".")[0] for name in rows("--component", "kubelet", "--version", version)}

    assert found & {"dra", "dra.classic"} == tables


def test_people_get_a_table():
    """A line for each feature has its value and the reason."""
    arguments = ["--component", "kubelet", "--version", "1.36"]
    output = CliRunner().invoke(features, arguments, catch_exceptions=False).output
    line = next(line for line in output.splitlines() if line.startswith("extended_resources "))

    assert line.split()[:2] == ["extended_resources", "true"]
    assert "gate DRAExtendedResource is on (Beta)" in line


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--feature-gates", "Foo=true"), "feature gates: unrecognized feature gate: Foo"),
        (("--feature-gates", "Foo"), "feature gates: missing bool value for Foo"),
    ],
)
def test_wrong_gates_are_refused(arguments, text):
    """A gate that the component's flag does not take is an error in upstream's words."""
    result = CliRunner().invoke(features, ["--component", "scheduler", *arguments])

    assert isinstance(result.exception, UserError)
    assert str(result.exception) == text


def tables(kind: type[FeatureTable] = FeatureTable) -> set[str]:
    return {
        name
        for table in kind.__subclasses__()
        for name in (f"{table.__module__}.{table.__qualname__}", *tables(table))
        if table.__module__.startswith("kubeskew.")
    }


def shown(table: type[FeatureTable]) -> set[str]:
    """A table and its parts, by their names."""
    parts = {name for rule in table.field_rules.values() for inner in rule.tables() for name in shown(inner)}
    return {f"{table.__module__}.{table.__qualname__}", *parts}


def test_every_table_of_features_is_shown():
    """No component has a table that the command does not know."""
    assert {
        name for group in TABLES.values() for table, _ in group.values() for name in shown(table)
    } == tables()


@pytest.mark.parametrize("component", TABLES)
def test_every_feature_says_why(component):
    """In every release a feature has a reason, unless its value is the same in all."""
    silent = [
        {row.name for row in explained(component, FeatureGates(version)) if not row.reasons}
        for version in SUPPORTED
    ]
    named = set.union(*silent)

    assert named <= {"dynamic.binding_seconds"}


@pytest.mark.parametrize(
    ("version", "finalizer", "keeps"),
    [
        ("1.29", "", False),
        ("1.29+kep4381", "semantic.dra.k8s.io/delete-protection", True),
        ("1.30", "dra.k8s.io/delete-protection", True),
        ("1.31", "resource.kubernetes.io/delete-protection", False),
    ],
)
def test_the_protection_of_an_allocation_is_shown(version, finalizer, keeps):
    """The finalizer of allocated claims, and their fate after the last user, are features of each release."""
    found = rows("--component", "controller-manager", "--version", version)

    assert found["resource_claims.finalizer"]["value"] == finalizer
    assert found["resource_claims.classic.keeps_immediate"]["value"] is keeps


def test_rules_of_kinds_are_a_table():
    """The rules of kinds are apart from those of requests."""
    found = rows("--component", "apiserver", "--version", "1.33")

    assert {"kinds.condition_texts", "kinds.names_level_type", "requests.retries_names"} <= {*found}
    assert "requests.condition_texts" not in found
