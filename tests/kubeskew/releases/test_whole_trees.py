"""Trees that are written of a minor's facts are read as these facts."""

from typing import Any

import pytest
from source_trees import Tree, tree

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.authorization import default_roles
from kubeskew.releases.tree.gates import gates
from kubeskew.releases.tree.printer_columns import printer_columns
from kubeskew.releases.tree.resource_gates import resource_gates
from kubeskew.releases.tree.roles import roles
from kubeskew.releases.tree.source_tree import SourceTree
from kubeskew.releases.tree.storage_versions import storage_versions


@pytest.fixture(scope="module", params=[31, 37])
def whole(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Tree, SourceTree]:
    facts = tree(request.param)
    return facts, SourceTree(facts.write(tmp_path_factory.mktemp("tree")))


def test_gates(whole: tuple[Tree, SourceTree]) -> None:
    """Stages, defaults and locks of all gates, and the resources that need one."""
    facts, read = whole

    assert gates(read)["gates"] == facts.gates
    assert resource_gates(read) == facts.resource_gates


def test_storage_versions_and_columns(whole: tuple[Tree, SourceTree]) -> None:
    """Of all kinds, be they printed and stored as another group's."""
    facts, read = whole
    stored = {key: version.rpartition("/")[2] for key, version in storage_versions(read).items()}

    assert stored == facts.storage
    assert printer_columns(read) == {
        key: columns for key, columns in facts.columns.items() if _group(key) in _groups(facts)
    }


def _group(key: str) -> str:
    return key.partition("/")[0]


def _groups(facts: Tree) -> set[str]:
    return {group for group, _ in facts.kinds.values()} | {"meta"}


def test_roles(whole: tuple[Tree, SourceTree], monkeypatch: pytest.MonkeyPatch) -> None:
    """An imported release has the roles and bindings of its tree, and kubeskew's own ones."""
    facts, read = whole
    rows = roles(read)
    monkeypatch.setattr(Version, "document", lambda self, file: rows)
    version = Version(facts.minor, name="mine", imported_from=Version(facts.minor))
    gates_of_base = FeatureGates(Version(facts.minor))
    monkeypatch.setattr(gates_of_base, "_version", version)

    made = default_roles.DefaultRoles(gates_of_base)
    objects = [
        *made.cluster_roles(), *made.cluster_role_bindings(), *made.roles(), *made.role_bindings()
    ]  # fmt: skip

    ours = [role for role in objects if role["metadata"]["name"].startswith("kubeskew:")]
    assert _by_name(role for role in objects if role not in ours) == _by_name(facts.roles)
    assert [role["kind"] for role in ours] == ["ClusterRole", "ClusterRoleBinding"]


def _by_name(objects: Any) -> dict[tuple[str, str, str], Any]:
    return {
        (made["kind"], made["metadata"].get("namespace", ""), made["metadata"]["name"]): made
        for made in objects
    }
