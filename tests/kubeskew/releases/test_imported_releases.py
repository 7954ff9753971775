"""Releases that are imported from source trees: what they have, and what components make of it."""

import dataclasses
import io
import tarfile
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from imported import enhanced, import_into
from source_trees import Tree, tree

from kubeskew.apimachinery.catalogue import catalogue_for
from kubeskew.apimachinery.catalogue.types import types_of
from kubeskew.apimachinery.gates import FeatureGates, GateError
from kubeskew.apimachinery.imported_releases import ENVIRONMENT
from kubeskew.apimachinery.versions import SUPPORTED, Version, VersionError, supported
from kubeskew.apiserver.features import Features
from kubeskew.releases.comparison import compare
from kubeskew.releases.directory import ReleaseDirectory, ReleaseError
from kubeskew.releases.tree.go_syntax import TreeError
from kubeskew.releases.tree.source_tree import SourceTree

POD_SPEC = "io.k8s.api.core.v1.PodSpec"


@pytest.fixture(scope="module", name="releases")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Has 1.37+same, of a tree that is what is shipped, and 1.37+mine, of an enhancement's branch."""
    releases = tmp_path_factory.mktemp("releases")
    import_into(releases, tree(), tmp_path_factory.mktemp("same"), "1.37+same")
    import_into(releases, enhanced(), tmp_path_factory.mktemp("mine"), "1.37+mine")
    return releases


@pytest.fixture(autouse=True)
def chosen(releases: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT, str(releases))


def test_a_tree_without_changes() -> None:
    """A tree of a shipped minor gives the shipped release."""
    assert compare(Version(37), Version.parse("1.37+same")) == []


def test_what_a_branch_changes() -> None:
    """The comparison of two releases has what the branch changed, and nothing else."""
    found = compare(Version.parse("1.37+same"), Version.parse("1.37+mine"))
    named = {(each.subject, each.name, each.change) for each in found}

    assert {name for name in named if "Widget" not in name[1]} == {
        ("fields", "core.v1.PodSpec.fancy", "added"),
        ("rules", "core.v1.PodSpec.fancy", "added"),
        ("resources", "widgets.v1.scheduling.k8s.io", "added"),
        ("gates", "Fancy", "added"),
        ("roles", "ClusterRole system:painter", "added"),
        ("code", "plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go", "changed"),
        ("storage versions", "resource.k8s.io/DeviceTaintRule", "changed"),
    }
    assert ("types", "scheduling.v1.Widget", "added") in named
    assert ("storage versions", "scheduling.k8s.io/Widget", "added") in named


def test_gates_that_come_to_need_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison of two releases has the gates without which others cannot be on."""
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path))
    made = tree()
    made.add_gate("Colours")
    made.add_gate("Fancy")
    made.dependencies["Fancy"] = ["Colours"]
    import_into(tmp_path, made, tmp_path / "tree", "1.37+needs")

    found = {each.name: each.after for each in compare(Version(37), Version.parse("1.37+needs"))}
    assert found["Fancy"] == {
        "stage": "Alpha", "default": False, "locked": False, "dependencies": ["Colours"],
    }  # fmt: skip
    assert "dependencies" not in found["Colours"]


def test_gates_of_later_minors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gate that the tree registers for later minors alone guards its field, is off, and is reported."""
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path))
    made = enhanced()
    del made.gates["Fancy"]
    made.files["pkg/features/later.go"] = (
        'package features\n\nconst Fancy featuregate.Feature = "Fancy"\n\n'
        "var later = map[featuregate.Feature]featuregate.VersionedSpecs{\n"
        '\tFancy: {{Version: version.MustParse("1.38"), PreRelease: featuregate.Alpha}},\n}\n'
    )
    release = import_into(tmp_path, made, tmp_path / "tree", "1.37+later")
    version = Version.parse("1.37+later")
    fields = {each.name: each.after for each in compare(Version(37), version) if each.subject == "fields"}

    assert release.reported["gates that are registered for later minors alone"] == ["Fancy"]
    assert fields["core.v1.PodSpec.fancy"]["gates"] == ["Fancy"]
    assert FeatureGates(version).is_off("Fancy")


def test_order_and_skew(releases: Path, tmp_path: Path) -> None:
    """An imported release comes after its minor, and behaves as its base; a new minor comes after all."""
    import_into(releases, enhanced(), tmp_path, "1.38")
    mine, following = Version.parse("1.37+mine"), Version.parse("v1.38.0")

    assert Version(37) < mine < following
    assert (mine.minor, mine.base, mine.git_version) == (37, Version(37), f"v1.37.{Version(37).level}+mine")
    assert (following.minor, following.base, following.git_version) == (38, Version(37), "v1.38.0")
    assert [str(version) for version in supported()][-4:] == ["1.37", "1.37+mine", "1.37+same", "1.38"]
    new, old = (Features.of(FeatureGates(version)).documents for version in (following, Version(37)))
    names = [each.name for each in dataclasses.fields(new)]
    differing = {name for name in names if getattr(new, name) != getattr(old, name)}
    assert differing == {"version", "shown_version"}


def test_a_release_that_is_imported_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that knew the first import of a name has nothing of it once another takes its place."""
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "releases"))
    import_into(tmp_path / "releases", tree(), tmp_path / "first", "1.37+again")
    first = Version.parse("1.37+again")
    before = FeatureGates(first).knows("Fancy"), "fancy" in types_of(first)[POD_SPEC].fields
    ReleaseDirectory(tmp_path / "releases").remove("1.37+again")
    import_into(tmp_path / "releases", enhanced(), tmp_path / "second", "1.37+again")
    second = Version.parse("1.37+again")
    after = FeatureGates(second).knows("Fancy"), "fancy" in types_of(second)[POD_SPEC].fields

    assert (before, after) == ((False, False), (True, True))
    assert first != second


def test_gates() -> None:
    """A gate of the tree can be set; gates that no component of the tree registers are refused."""
    mine = Version.parse("1.37+mine")

    assert FeatureGates.parse(mine, "Fancy=true").enabled("Fancy")
    assert not FeatureGates(mine).enabled("Fancy")
    with pytest.raises(GateError, match="unrecognized feature gate: Fancier"):
        FeatureGates.parse(mine, "Fancier=true")
    with pytest.raises(GateError, match="unrecognized feature gate: Fancy"):
        FeatureGates.parse(Version(37), "Fancy=true")


def test_a_release_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line says which release is missing, where, and what to do."""
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path))

    with pytest.raises(VersionError) as error:
        Version.parse("1.37+mine")

    assert str(error.value) == (
        f"release 1.37+mine is not imported in {tmp_path}, which has none: import it with "
        f"`kubeskew release import`, or name the directory that has it in {ENVIRONMENT}"
    )


def test_export_and_import(releases: Path, tmp_path: Path) -> None:
    """A release that is exported from one directory is the same in another."""
    ReleaseDirectory(releases).export("1.37+mine", tmp_path / "mine.tar.gz")
    other = ReleaseDirectory(tmp_path / "other")
    added = other.add(tmp_path / "mine.tar.gz")
    files = {path.name: path.read_bytes() for path in (releases / "1.37+mine").iterdir()}

    assert added == ReleaseDirectory(releases).release("1.37+mine")
    assert {path.name: path.read_bytes() for path in (tmp_path / "other" / "1.37+mine").iterdir()} == files


def test_exports_are_the_same(releases: Path, tmp_path: Path) -> None:
    """Two exports of a release have the same bytes, and neither the file's name nor a time in the header."""
    files = [tmp_path / "mine.tar.gz", tmp_path / "other.tar.gz"]
    for file in files:
        ReleaseDirectory(releases).export("1.37+mine", file)

    first, second = (file.read_bytes() for file in files)
    assert first == second
    assert first[3:8] == bytes(5)  # flags and time (RFC 1952)


def _archive(file: Path, contents: dict[str, bytes]) -> Path:
    with tarfile.open(file, "w:gz") as archive:
        for name, content in contents.items():
            entry = tarfile.TarInfo(f"1.37+other/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return file


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"catalogue.json": None}, "catalogue.json is not in it"),
        ({"gates.json": b"{"}, "is no exported release"),
        ({"release.json": {"name": 7}}, "7 is no text"),
        ({"release.json": {"base": 37}}, "37 is no text"),
        ({"release.json": {"base": "1.26"}}, r"--base 1\.26 does not suit 1\.37\+other"),
        ({"release.json": {"counts": 7}}, "is no exported release"),
        ({"release.json": {"counts": {"gates": "many"}}}, "'many' is no number"),
    ],
)
def test_archives_that_cannot_be_imported(
    change: dict[str, Any], message: str, releases: Path, tmp_path: Path
) -> None:
    """One line says what is wrong with an archive, and nothing of it is left."""
    contents = {path.name: path.read_bytes() for path in (releases / "1.37+mine").iterdir()}
    summary = orjson.loads(contents["release.json"]) | {"name": "1.37+other"}
    for file, content in change.items():
        if content is None:
            del contents[file]
        elif isinstance(content, bytes):
            contents[file] = content
        else:
            summary |= content
    contents["release.json"] = orjson.dumps(summary)
    other = tmp_path / "releases"

    with pytest.raises(ReleaseError, match=message) as error:
        ReleaseDirectory(other).add(_archive(tmp_path / "other.tar.gz", contents))

    assert "\n" not in str(error.value)
    assert not other.exists()


def test_two_imports_at_the_same_time(
    releases: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The import that ends later is refused like one that comes later."""
    made = ReleaseDirectory(releases).release("1.37+mine")
    ReleaseDirectory(tmp_path).write(made, {"gates.json": {}})
    monkeypatch.setattr(ReleaseDirectory, "check_free", lambda *_: None)  # it was free when that began

    with pytest.raises(ReleaseError, match="already: choose another name"):
        ReleaseDirectory(tmp_path).write(made, {"gates.json": {"gates": {}}})

    assert [path.name for path in tmp_path.iterdir()] == ["1.37+mine"]


@pytest.mark.parametrize(
    ("name", "summary"),
    [
        ("1.37+mine.bak", {"format": 1, "base": "1.37"}),
        ("backup", {"format": 1, "base": "1.37"}),
        ("1.37+damaged", {"format": 1}),
        ("1.99+later", {"format": 1, "base": "1.99"}),
    ],
)
def test_other_directories(
    name: str, summary: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory that is no release of this kubeskew is none to choose from."""
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path))
    (tmp_path / name).mkdir()
    (tmp_path / name / "release.json").write_bytes(orjson.dumps(summary))

    assert list(supported()) == list(SUPPORTED)
    assert list(ReleaseDirectory(tmp_path)) == []


def _cut(made: Tree) -> None:
    made.files["staging/src/k8s.io/api/core/v1/types.go"] = "package v1\n\ntype Pod struct {\n"


def _without_document(made: Tree) -> None:
    made.files["api/discovery/aggregated_v2.json"] = "{"


def _old(made: Tree) -> None:
    made.minor = 30


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_cut, r"core/v1/types\.go:\d+: this is no Go; fix it and import again"),
        (_without_document, r"aggregated_v2\.json: this is no JSON"),
        (_old, r"is Kubernetes 1\.30: trees of 1\.31 and later can be imported"),
    ],
    ids=["broken Go", "broken document", "too old"],
)
def test_trees_that_cannot_be_imported(change: Any, message: str, tmp_path: Path) -> None:
    """One line says what is wrong with a tree, and nothing half imported is left."""
    made = tree()
    change(made)

    with pytest.raises(TreeError, match=message) as error:
        import_into(tmp_path / "releases", made, tmp_path / "tree", "1.37+broken")

    assert "\n" not in str(error.value)
    assert not (tmp_path / "releases").exists()


def test_a_directory_that_is_no_tree(tmp_path: Path) -> None:
    """An empty directory is refused in one line that says what to name."""
    with pytest.raises(TreeError, match=r"is no Kubernetes source tree: .* name the root of a clone"):
        SourceTree(tmp_path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("9.99", "'9.99' is no name for a release"),
        ("1.37+Mine", r"'1\.37\+Mine' is no name for a release"),
        ("1.037+mine", r"'1\.037\+mine' is no name for a release"),
        ("1.37+mine\n", "is no name for a release"),
        ("1.36", r"1\.36 is a release that kubeskew has itself"),
        ("1.29+kep4381", r"1\.29\+kep4381 is a release that kubeskew has itself"),
        ("1.37+mine", r"release 1\.37\+mine is in .* already"),
    ],
)
def test_names_that_cannot_be_had(name: str, message: str, releases: Path) -> None:
    """A name that is taken or of another form is refused."""
    with pytest.raises(ReleaseError, match=message):
        ReleaseDirectory(releases).check_free(name)


MARKERS = ("k8s:maxLength=3", "listType=map", "k8s:maxItems=x", "featureGate=None", "default=1")
ALTERABLE = ("core/v1", "apps/v1", "resource/v1", "batch/v1")


@st.composite
def changes(draw: st.DrawFn) -> list[tuple[str, str, str, str, Any]]:
    """Fields to remove, add or tag, by package and type."""
    types = tree().types
    found = []
    for number in range(draw(st.integers(1, 4))):
        package = draw(st.sampled_from(ALTERABLE))
        kind = draw(
            st.sampled_from(sorted(name for name, fact in types[package].items() if fact.get("fields")))
        )
        field = draw(st.sampled_from(sorted(types[package][kind]["fields"])))
        change = draw(st.sampled_from(["remove", "add", "tag", "type"]))
        value = draw(st.sampled_from(MARKERS))
        found.append((package, kind, f"new{number}" if change == "add" else field, change, value))
    return found


_NUMBER = iter(range(1_000_000))


@settings(max_examples=6)
@given(drawn=changes())
def test_any_change_of_a_tree(
    drawn: list[tuple[str, str, str, str, Any]], releases: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A tree that is changed at random gives a release that can be served, or is refused in one line."""
    made = tree()
    for package, kind, field, change, value in drawn:
        fields = made.types[package][kind]["fields"]
        if change == "remove":
            fields.pop(field, None)
        elif change == "add":
            fields[field] = {"type": "*int32", "omitempty": True, "markers": [value]}
        elif field in fields:
            fact = fields[field]
            fields[field] = fact | ({"type": "[]string"} if change == "type" else {"markers": [value]})
    name = f"1.37+any{next(_NUMBER)}"
    refused = ""
    try:
        import_into(releases, made, tmp_path_factory.mktemp("tree"), name)
    except (TreeError, ReleaseError) as error:
        refused = str(error)
    if refused:
        assert "\n" not in refused
        return
    version = Version.parse(name)
    catalogue = catalogue_for(version, FeatureGates(version))
    for group, versions in catalogue.groups():
        for each in versions:
            for resource in catalogue.resources(group, each):
                assert resource.kind
    ReleaseDirectory(releases).remove(name)
