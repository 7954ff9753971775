"""Structs of a tree: protobuf numbers, internal types, and the layout that hashes depend on."""

import sys
from pathlib import Path

import pytest
from written_trees import API, META, written_tree

from kubeskew.releases.tree.device_structs import device_structs
from kubeskew.releases.tree.go_syntax import TreeError
from kubeskew.releases.tree.internal_types import internal_types
from kubeskew.releases.tree.json_fields import json_fields
from kubeskew.releases.tree.pod_template import pod_template
from kubeskew.releases.tree.protobuf_numbers import needed, protobuf_numbers

HACK = Path(__file__).parents[3] / "hack/catalogue"
THINGS = """
import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/api/other/v1"
)

type Thing struct {
	metav1.TypeMeta `json:",inline"`
	// a remark
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Names     []v1.Name `json:"names,omitempty" protobuf:"bytes,3,rep,name=names"`
	Source    `json:",inline" protobuf:"bytes,4,opt,name=source"`
	v1.Common `json:",inline" protobuf:"bytes,2,opt,name=common"`
	Hidden string `json:"-" protobuf:"bytes,9,opt,name=hidden"`
}

type Source struct {
	Path *string `json:"path" protobuf:"bytes,1,opt,name=path"`
}

type Same = Source
type Like Source
type Empty struct{}
type Names []string
"""
PACKAGE = "io.k8s.api.things.v1."


def test_numbers(tmp_path: Path) -> None:
    """Field numbers come out of tags, those of embedded and renamed types too."""
    table = protobuf_numbers(written_tree(tmp_path, {f"{API}/things/v1/types.go": THINGS}))

    thing = {"metadata": 1, "=io.k8s.api.other.v1.Common": 2, "names": 3, f"={PACKAGE}Source": 4}
    assert table[f"{PACKAGE}Thing"] == thing
    assert list(table[f"{PACKAGE}Thing"]) == list(thing)
    assert {table[f"{PACKAGE}{name}"]["path"] for name in ("Source", "Same", "Like")} == {1}
    assert f"{PACKAGE}Names" not in table
    assert list(needed(table, [f"{PACKAGE}Thing", f"{PACKAGE}Empty"])) == [
        f"{PACKAGE}Empty", f"{PACKAGE}Source", f"{PACKAGE}Thing",
    ]  # fmt: skip


def test_a_number_that_is_there_twice(tmp_path: Path) -> None:
    """Two fields of one number are refused in one line that names the type."""
    source = THINGS.replace("bytes,3", "bytes,4")

    with pytest.raises(TreeError, match=r"types\.go: Thing has a protobuf number twice; fix it and import"):
        protobuf_numbers(written_tree(tmp_path, {f"{API}/things/v1/types.go": source}))


def test_json_fields_of_a_tree(tmp_path: Path) -> None:
    """Fields stand in the order of the source, embedded structs by their names, hidden fields not at all."""
    tree = written_tree(tmp_path, {f"{API}/things/v1/types.go": THINGS})

    found = json_fields(tree, [f"{PACKAGE}Thing", f"{PACKAGE}Same", "elsewhere.Other"])

    type_meta = "=io.k8s.apimachinery.pkg.apis.meta.v1.TypeMeta"
    thing = f"{type_meta} metadata names ={PACKAGE}Source =io.k8s.api.other.v1.Common"
    structs = {f"{PACKAGE}{name}": "path" for name in ("Same", "Source")} | {f"{PACKAGE}Thing": thing}
    assert found == {"structs": structs}


def test_a_number_that_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tool that adds a release's numbers refuses one that another release has differently."""
    monkeypatch.syspath_prepend(str(HACK))
    import protobuf_numbers as tool

    pod = 'type Pod struct {\n\tSpec string `json:"spec" protobuf:"bytes,9,opt,name=spec"`\n}\n'
    written_tree(tmp_path, {f"{API}/core/v1/types.go": pod})
    monkeypatch.setattr(sys, "argv", ["", str(tmp_path), "--output", str(tmp_path / "numbers.json")])

    with pytest.raises(SystemExit, match=r"core\.v1\.Pod\.spec is 9, not 2"):
        tool.main()


INTERNAL = """
import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/api/resource"
	api "k8s.io/kubernetes/pkg/apis/core"
)

type Job struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Template
	Spec     *JobSpec
	Pods     []api.Pod
	ByName   map[string]api.Pod
	Labels   map[string]string
	Names    []string
	UID      *types.UID
	Amount   resource.Quantity
	Selector *metav1.LabelSelector
	Mode, Other Mode // both
	When     metav1.Time
	List     Modes
	Raw      interface{}
}
type JobSpec struct{ Count int32 }
type Template struct{ api.Pod }
type Mode string
type Modes []Mode
type Known struct {
	metav1.TypeMeta
	Name string `json:"name"`
}
"""


def test_internal_types(tmp_path: Path) -> None:
    """A field is shown by its type: scalars by a letter, structs by their name behind their marks."""
    files = {"pkg/apis/batch/types.go": INTERNAL, "pkg/apis/core/types.go": "type Pod struct{ A bool }\n"}

    found = internal_types(written_tree(tmp_path, files))

    assert found["batch.Job"] == [
        ["ObjectMeta", "m"], ["A", "b"], ["Spec", "*batch.JobSpec"], ["Pods", "[core.Pod"],
        ["ByName", "{core.Pod"], ["Labels", "n"], ["Names", "n"], ["UID", "n"], ["Amount", "q"],
        ["Selector", "*l"], ["Mode", "s"], ["Other", "s"], ["When", "n"], ["List", "n"], ["Raw", "e"],
    ]  # fmt: skip
    assert found["batch.JobSpec"] == [["Count", "i"]]
    assert list(found) == ["batch.Job", "batch.JobSpec", "batch.Template", "core.Pod"]


DEVICES = """
import (
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	inner "k8s.io/kubernetes/pkg/apis/core"
)

type Claim struct {
	meta.ObjectMeta
	Config // a remark
	Nodes    *inner.NodeSelector
	Values   map[QualifiedName][]Value // another
	A, B     int64
}
type Config struct{}
type QualifiedName string
type Value = map[string]bool
"""


def test_device_structs(tmp_path: Path) -> None:
    """Fields are in their order with types that name their group; embedded ones have no name."""
    core = "type NodeSelector struct{ Terms []string }\ntype Node struct{ Name string }\n"
    files = {"pkg/apis/resource/types.go": DEVICES, "pkg/apis/core/types.go": core}

    assert device_structs(written_tree(tmp_path, files)) == {
        "core.NodeSelector": [["Terms", "[]string"]],
        "resource.Claim": [
            ["", "metav1.ObjectMeta"], ["", "resource.Config"], ["Nodes", "*core.NodeSelector"],
            ["Values", "map[resource.QualifiedName][]resource.Value"], ["A", "int64"], ["B", "int64"],
        ],
        "resource.Config": [],
        "resource.QualifiedName": "string",
        "resource.Value": "map[string]bool",
    }  # fmt: skip


CORE = """
import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

type PodTemplateSpec struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec *PodSpec `json:"spec,omitempty"`
}
type PodSpec struct {
	Common `json:",inline"`
	Limits ResourceList `json:"limits"`
}
type Common struct {
	Names []string `json:"names"`
}
type ResourceList map[ResourceName]resource.Quantity
type ResourceName string
type Pod struct {}
"""


def test_pod_template(tmp_path: Path) -> None:
    """The layout has the types that a template is made of, by the names that reflection gives them."""
    meta = 'type ObjectMeta struct {\n\tName string `json:"name,omitempty"`\n\thidden int\n}\n'
    files = {f"{API}/core/v1/types.go": CORE, f"{META}/types.go": meta}

    assert pod_template(written_tree(tmp_path, files)) == {
        "v1.Common": [["Names", "names", "[]string"]],
        "v1.ObjectMeta": [["Name", "name", "string"]],
        "v1.PodSpec": [["Common", "", "v1.Common"], ["Limits", "limits", "v1.ResourceList"]],
        "v1.PodTemplateSpec": [["ObjectMeta", "metadata", "v1.ObjectMeta"], ["Spec", "spec", "*v1.PodSpec"]],
        "v1.ResourceList": "map[v1.ResourceName]resource.Quantity",
        "v1.ResourceName": "string",
    }


def test_internal_types_that_are_made_of_themselves(tmp_path: Path) -> None:
    """They are refused in one line."""
    tree = written_tree(tmp_path, {"pkg/apis/core/types.go": "type A struct{ B }\ntype B struct{ A }\n"})

    with pytest.raises(TreeError, match=r"are made of themselves in a circle; fix it and import again$"):
        internal_types(tree)
