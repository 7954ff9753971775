"""Facts about types that are read from Go."""

from pathlib import Path
from typing import Any

import pytest
from written_trees import API, META, written_tree

from kubeskew.releases.tree.go_constants import UNKNOWN, Constants
from kubeskew.releases.tree.go_syntax import GoFile, TreeError
from kubeskew.releases.tree.go_types import types
from kubeskew.releases.tree.source_tree import SourceTree

TYPES = """
import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const DefaultMode = "On"

// +genclient
// +k8s:prerelease-lifecycle-gen:introduced=1.36

// Thing has a mode.
// +structType=atomic
type Thing struct {
	metav1.TypeMeta   `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// Items are many.
	// +listType=map
	// +listMapKey=name
	// +----+----+
	Items []corev1.Item `json:"items,omitempty" patchStrategy:"merge,retainKeys" patchMergeKey:"name"`
	// +k8s:deprecated=old

	// +featureGate=Fancy
	At     *metav1.Time `json:"at,omitzero"` // +notThis
	Hidden string       `json:"-"`
	own    string
	Spec
	A, B   int32
}

type Spec struct {
}

// +enum
type Mode string

const (
	ModeOn  Mode = DefaultMode
	ModeOff      = Mode("Off")
	// ModeDual is both.
	ModeDual     = Mode(corev1.Dual)
	ModeAgain Mode = "On"
	Unrelated    = "x"
)

type Old = Mode
type List corev1.List
type Doer interface{ Do() }
"""
CORE = 'type Family string\nconst Dual Family = `Dual`\ntype Item struct {\n\tName string `json:"name"`\n}\n'


@pytest.fixture(name="document")
def made(tmp_path: Path) -> dict[str, Any]:
    files = {
        f"{API}/apps/v1/types.go": TYPES,
        f"{API}/apps/v1/zz_generated.go": "type Generated string",
        f"{API}/apps/v1/types_test.go": "type Tested string",
        f"{API}/core/v1/types.go": CORE,
        f"{META}/types.go": 'type Time struct {\n\tSeconds int64 `json:"s"`\n}\n',
    }
    return types(written_tree(tmp_path, files))


def test_types_of_packages(document: dict[str, Any]) -> None:
    """Every exported type that has values of its own is there, by group and version."""
    assert document["version"] == "1.36"
    assert {name: sorted(found) for name, found in document["types"].items()} == {
        "apps/v1": ["List", "Mode", "Old", "Spec", "Thing"],
        "core/v1": ["Family", "Item"],
    }
    assert list(document["machinery"]["k8s.io/apimachinery/pkg/apis/meta/v1"]) == ["Time"]
    assert document["imports"]["apps/v1"] == {
        "corev1": "k8s.io/api/core/v1",
        "metav1": "k8s.io/apimachinery/pkg/apis/meta/v1",
    }


def test_fields(document: dict[str, Any]) -> None:
    """Tags and the markers right above a field count; those of a comment apart or behind it do not."""
    thing = document["types"]["apps/v1"]["Thing"]

    assert thing["fields"] == {
        "<inline:metav1.TypeMeta>": {"type": "metav1.TypeMeta"},
        "<inline:metav1.ObjectMeta>": {
            "type": "metav1.ObjectMeta", "omitempty": True, "markers": ["optional"],
        },
        "items": {
            "type": "[]corev1.Item", "omitempty": True, "patchStrategy": "merge,retainKeys",
            "patchMergeKey": "name", "markers": ["listType=map", "listMapKey=name"],
        },
        "at": {"type": "*metav1.Time", "omitzero": True, "markers": ["featureGate=Fancy"]},
        "<inline:Spec>": {"type": "Spec"},
        "A": {"type": "int32"},
        "B": {"type": "int32"},
    }  # fmt: skip
    assert thing["markers"] == [
        "+genclient", "+k8s:prerelease-lifecycle-gen:introduced=1.36", "+structType=atomic",
    ]  # fmt: skip


def test_values_and_aliases(document: dict[str, Any]) -> None:
    """Constants of a type are its values: typed ones and conversions, of other packages' constants too."""
    found = document["types"]["apps/v1"]

    assert found["Mode"] == {"alias": "string", "markers": ["+enum"], "values": ["On", "Off", "Dual"]}
    assert found["Old"] == {"alias": "=", "of": "Mode"}
    assert found["List"] == {"alias": "corev1.List"}
    assert found["Spec"] == {"alias": "struct{}"}


def test_a_package_that_is_not_imported(tmp_path: Path) -> None:
    """A type of a package that the file does not import is refused in one line."""
    tree = written_tree(tmp_path, {f"{API}/apps/v1/types.go": "type A struct {\n\tB v1.C\n}\n"})

    with pytest.raises(TreeError, match=r"apps/v1/types\.go: v1 is not imported; fix it and import again"):
        types(tree)


@pytest.mark.parametrize("link", ["outside.go", "folder"])
def test_links_that_lead_out_of_the_tree(tmp_path: Path, link: str) -> None:
    """Nothing outside of the tree is read, neither by a link nor by the path of an import."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "types.go").write_text("package v1\n\ntype Outside struct {\n}\n")
    tree = written_tree(tmp_path / "tree", {f"{API}/apps/v1/types.go": "type Inside struct {\n}\n"})
    folder = tree.directory("k8s.io/api/apps")
    if link == "folder":
        (folder / "v2").symlink_to(outside)
    else:
        (folder / "v1" / link).symlink_to(outside / "types.go")

    assert sorted(types(tree)["types"]["apps/v1"]) == ["Inside"]
    assert "apps/v2" not in types(tree)["types"]
    assert tree.package("k8s.io/../../../../outside").names == []
    assert tree.file("../outside/types.go") == ""


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    """It is refused in one line, as Go and as text."""
    tree = written_tree(tmp_path, {f"{API}/apps/v1/types.go": ""})
    (tree.directory("k8s.io/api/apps/v1") / "types.go").write_bytes(b"package v1\n// \xff\n")

    for read in (types, lambda tree: tree.file(f"{API}/apps/v1/types.go")):
        with pytest.raises(TreeError, match=r"types\.go: this is no UTF-8; fix it and import again$"):
            read(tree)


def test_a_commit(tmp_path: Path) -> None:
    """It is the one that is checked out, also in a worktree; a head that names none is empty."""
    tree, commit = written_tree(tmp_path / "tree", {}), "0123456789" * 4
    git = tmp_path / "git"
    (git / "refs" / "heads").mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/mine\n")
    (tree.root / ".git").write_text("gitdir: ../git\n")
    (git / "refs/heads/mine").write_text(f"{commit}\n")

    assert tree.commit == commit
    (git / "HEAD").write_text("root:x:0:0\n")
    assert SourceTree(tree.root).commit == ""


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("0644", 420),
        ("0x1F", 31),
        ("1_000", 1000),
        ("-2", -2),
        ('"a" + corev1.Dual', "aDual"),
        ("Other", "x"),
        ("ptr.To[int32](3)", 3),
        ("intstr.FromInt32(4)", 4),
        (r'"\U99999999"', UNKNOWN),
        ("iota", UNKNOWN),
        ("time.Now()", UNKNOWN),
        ("Self", UNKNOWN),
    ],
)
def test_constants(tmp_path: Path, expression: str, value: Any) -> None:
    """Literals, sums, other constants and what pointers lead to have a value; all else is unknown."""
    imports = """
    import (
        "time"

        corev1 "k8s.io/api/core/v1"
        "k8s.io/apimachinery/pkg/util/intstr"
        "k8s.io/utils/ptr"
    )
    """
    source = f'{imports}\nconst Other = "x"\nconst Self = Self\nvar Value = {expression}\n'
    tree = written_tree(tmp_path, {f"{API}/apps/v1/types.go": source, f"{API}/core/v1/types.go": CORE})
    node, file = tree.package("k8s.io/api/apps/v1").values["Value"]

    assert Constants(tree).value(node, file) == value


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ("corev1.Pod", ("k8s.io/api/core/v1", "Pod")),
        ("*corev1.Pod", ("k8s.io/api/core/v1", "Pod")),
        ("resource.Quantity", ("k8s.io/apimachinery/pkg/api/resource", "Quantity")),
        ("Deployment", ("k8s.io/api/apps/v1", "Deployment")),
        ("other.Pod", ("", "Pod")),
    ],
)
def test_names_of_a_file(tmp_path: Path, expression: str, named: tuple[str, str]) -> None:
    """A qualifier is the import of that file, and a name without one is of the file's own package."""
    path = tmp_path / "types.go"
    imports = 'import (\n\tcorev1 "k8s.io/api/core/v1"\n\t"k8s.io/apimachinery/pkg/api/resource"\n)\n'
    path.write_text(f"package v1\n\n{imports}")

    assert GoFile(path, "k8s.io/api/apps/v1").named(expression) == named
