"""Defaults that functions of a tree set, and the new fields that get them."""

from pathlib import Path
from typing import Any

import pytest
from written_trees import API, written_tree

from kubeskew.apimachinery.catalogue.types import Types
from kubeskew.apimachinery.schema import Field, Kind, Schema
from kubeskew.apiserver.registry.defaulting import schema_defaults
from kubeskew.releases.catalogue.assembly import Assembly
from kubeskew.releases.catalogue.defaults import with_defaults, without_defaults
from kubeskew.releases.tree.defaults import defaults

TYPES = """
type Thing struct {
	Spec ThingSpec `json:"spec"`
}
type ThingSpec struct {
	Common   `json:",inline"`
	Mode     Mode     `json:"mode"`
	Count    *int32   `json:"count"`
	Suspend  *bool    `json:"suspend"`
	Surge    *Amount  `json:"surge"`
	Size     int64    `json:"size"`
	Strategy *Strategy `json:"strategy"`
	Ports    []Port   `json:"ports"`
}
type Amount string
type Common struct {
	Label string `json:"label"`
}
type Strategy struct {
	Type string `json:"type"`
	Perm *int32 `json:"perm"`
}
type Port struct {
	Protocol string `json:"protocol"`
	Target   string `json:"target"`
}
type Mode string

const (
	ModeOn      Mode  = "On"
	DefaultPerm int32 = 0644
	DefaultSize       = 10
)
"""
HEAD = """
import (
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/utils/ptr"

	appsv1 "k8s.io/api/apps/v1"
)

func helper(obj *appsv1.Thing) {}

func SetDefaults_Thing(obj *appsv1.Thing) {
"""
GATES = 'const Fanciness featuregate.Feature = "Fancy"\n'
PERM = """if obj.Spec.Strategy.Perm == nil {
	perm := int32(appsv1.DefaultPerm)
	obj.Spec.Strategy.Perm = &perm
}"""
PORT = 'if p.Protocol == "" { p.Protocol = "TCP" }'


def read(root: Path, body: str, kind: str = "Thing") -> tuple[dict[str, Any], list[Any]]:
    source = HEAD.replace("Thing(obj *appsv1.Thing) {\n", f"{kind}(obj *appsv1.{kind}) {{\n") + body + "\n}\n"
    files = {
        f"{API}/apps/v1/types.go": TYPES,
        "pkg/apis/apps/v1/defaults.go": source,
        "pkg/features/kube_features.go": GATES,
    }
    found = defaults(written_tree(root, files))
    return found["defaults"].get(f"io.k8s.api.apps.v1.{kind}", {}), found["unread"]


@pytest.mark.parametrize(
    ("body", "path", "value"),
    [
        ('if obj.Spec.Mode == "" { obj.Spec.Mode = appsv1.ModeOn }', "spec.mode", "On"),
        ('if len(obj.Spec.Mode) == 0 { obj.Spec.Mode = "Off" }', "spec.mode", "Off"),
        ("if obj.Spec.Size == 0 { obj.Spec.Size = appsv1.DefaultSize }", "spec.size", 10),
        ("if obj.Spec.Count == nil { obj.Spec.Count = ptr.To[int32](-1) }", "spec.count", -1),
        ("if obj.Spec.Suspend == nil { obj.Spec.Suspend = ptr.To(false) }", "spec.suspend", False),
        (
            'if obj.Spec.Surge == nil { obj.Spec.Surge = ptr.To(intstr.FromString("25%")) }',
            "spec.surge",
            "25%",
        ),
        ("if obj.Spec.Count == nil { obj.Spec.Count = new(int32); *obj.Spec.Count = 3 }", "spec.count", 3),
        ("if obj.Spec.Count == nil { n := int32(4); obj.Spec.Count = &n }", "spec.count", 4),
        ("var n int32 = 5\nif obj.Spec.Count == nil { obj.Spec.Count = &n }", "spec.count", 5),
        ('if obj.Spec.Label == "" { obj.Spec.Label = "x" }', "spec.label", "x"),
        (
            "if obj.Spec.Strategy == nil { obj.Spec.Strategy = &appsv1.Strategy{} }",
            "spec.strategy",
            {},
        ),
        (
            f"if obj.Spec.Strategy != nil {{ {PERM} }}",
            "spec.strategy.perm",
            420,
        ),
        ('s := &obj.Spec\nif s.Strategy.Type == "" { s.Strategy.Type = "A" }', "spec.strategy.type", "A"),
        (
            f"for i := range obj.Spec.Ports {{ p := &obj.Spec.Ports[i]; {PORT} }}",
            "spec.ports[].protocol",
            "TCP",
        ),
    ],
)
def test_known_shapes(tmp_path: Path, body: str, path: str, value: Any) -> None:
    """A field that is set to a constant if it is unset has that default, by its name in JSON."""
    assert read(tmp_path, body) == ({path: {"d": value}}, [])


def test_gates(tmp_path: Path) -> None:
    """A default behind one gate has the gate, by its name, not that of the constant."""
    inner = 'if obj.Spec.Mode == "" { obj.Spec.Mode = "On" }'

    found, unread = read(
        tmp_path, f"if utilfeature.DefaultFeatureGate.Enabled(features.Fanciness) {{ {inner} }}"
    )

    assert (found, unread) == ({"spec.mode": {"d": "On", "g": ["Fancy"]}}, [])


@pytest.mark.parametrize(
    "body",
    [
        "helper(obj)",
        'if obj.Spec.Count == nil { return }\nif obj.Spec.Mode == "" { obj.Spec.Mode = "On" }',
        'if obj.Spec.Mode == "" { obj.Spec.Mode = "On" } else { obj.Spec.Size = 3 }',
        'if obj.Spec.Mode == "On" && obj.Spec.Size == 0 { obj.Spec.Size = 3 }',
        "hour := int64(time.Hour.Seconds())\nif obj.Spec.Size == 0 { obj.Spec.Size = hour }",
        'if obj.Spec.Mode == "" { obj.Spec.Mode = "On"; obj.Spec.Size = 2 }',
        "if obj.Spec.Size == 0 { obj.Spec.Size = int64(*obj.Spec.Count) }",
        "for _, port := range obj.Spec.Ports { helper(port) }",
    ],
)
def test_other_shapes(tmp_path: Path, body: str) -> None:
    """A function that does something else is named, with its file and line, and has no defaults from it."""
    line = HEAD.count("\n") + 2

    defaults, unread = read(tmp_path, body)

    place = f"pkg/apis/apps/v1/defaults.go:{line}: SetDefaults_Thing"
    assert (defaults, [row[:2] for row in unread]) == ({}, [[place, "io.k8s.api.apps.v1.Thing"]])


def test_what_the_rest_sets(tmp_path: Path) -> None:
    """A known default does not count if another statement of the function may set the same field."""
    known = 'if obj.Spec.Mode == "" { obj.Spec.Mode = "On" }\nif obj.Spec.Size == 0 { obj.Spec.Size = 1 }'

    found, unread = read(tmp_path, f"{known}\nif obj.Spec.Count != nil {{ obj.Spec.Size = 9 }}")

    assert (found, [row[2] for row in unread]) == ({"spec.mode": {"d": "On"}}, [["spec.size"]])


def definitions() -> dict[str, Any]:
    return {
        "Thing": {"fields": {"spec": {"t": "Spec"}, "mode": {"t": "string", "g": ["Fancy"]}}},
        "Spec": {"fields": {"ports": {"t": "[]Port"}, "old": {"t": "int32"}}},
        "Port": {"fields": {"protocol": {"t": "'v1.Protocol'string"}}},
    }


def test_new_fields_get_defaults() -> None:
    """A new field gets the default that a function sets, by its path; the base's fields keep theirs."""
    base = {"Spec": {"fields": {"old": {"t": "int32"}}}}
    read = {
        "Thing": {
            "spec.ports[].protocol": {"d": "TCP"}, "spec.old": {"d": 2}, "spec.gone": {"d": 4},
            "mode": {"d": "On", "g": ["Fancy"]},
        },
        "Port": {"protocol": {"d": "UDP", "g": ["Fancy"]}},
    }  # fmt: skip

    read = {"defaults": read, "unread": [["d.go:1: F", "Thing", ["spec.old", "spec.ports", "spec.none"]]]}

    found = with_defaults(definitions(), base, read)

    assert {name: made["pd"] for name, made in found.items() if "pd" in made} == {
        "Thing": {"spec.ports[].protocol": "TCP", "mode": "On"}
    }
    assert without_defaults(definitions(), base, read) == ["Port: protocol", "d.go:1: F: spec.ports"]


def _struct(**fields: Field) -> Schema:
    return Schema(Kind.OBJECT, fields=fields)


@pytest.mark.parametrize(
    ("path", "default", "obj", "filled"),
    [
        ("mode", "On", {}, {"mode": "On"}),
        ("mode", "On", {"mode": ""}, {"mode": "On"}),
        ("mode", "On", {"mode": "Off"}, {"mode": "Off"}),
        ("count", 0, {}, {"count": 0}),
        ("count", 2, {"count": 0}, {"count": 0}),
        ("size", 0, {}, {}),
        ("labels", {}, {"labels": {"a": "b"}}, {"labels": {"a": "b"}}),
        ("spec.mode", "On", {}, {"spec": {"mode": "On"}}),
        ("spec.inner.mode", "On", {}, {"spec": {}}),
        ("spec.inner.mode", "On", {"spec": {"inner": {}}}, {"spec": {"inner": {"mode": "On"}}}),
        (
            "items[].mode",
            "On",
            {"items": [{}, {"mode": "Off"}]},
            {"items": [{"mode": "On"}, {"mode": "Off"}]},
        ),
        ("items[].mode", "On", {}, {}),
        ("gone.mode", "On", {}, {}),
    ],
)
def test_defaults_by_path(path: str, default: Any, obj: dict[str, Any], filled: dict[str, Any]) -> None:
    """They fill what is absent, or empty where Go has no pointer; structs on the way are made likewise."""
    text = Field(Schema(Kind.STRING))
    inner = _struct(mode=text)
    fields = {
        "mode": text,
        "count": Field(Schema(Kind.INTEGER), pointer=True),
        "size": Field(Schema(Kind.INTEGER)),
        "labels": Field(Schema(Kind.MAP, items=Schema(Kind.STRING))),
        "spec": Field(_struct(mode=text, inner=Field(inner, pointer=True))),
        "items": Field(Schema(Kind.LIST, items=inner)),
    }
    walk = schema_defaults(Schema(Kind.OBJECT, "Thing", fields=fields, path_defaults={path: default}))
    assert walk is not None

    walk(obj)

    assert obj == filled


def test_a_catalogue_keeps_defaults_by_path() -> None:
    """They come from the newest release into the definition, and from there into the schema."""
    release = {"Thing": {"fields": {"mode": {"t": "string"}}, "pd": {"mode": "On"}}}
    assembly = Assembly({36: {"Thing": {"fields": {}}}, 37: release}, {}, {})
    definition = assembly.definition("Thing", [36, 37])
    document = {"kinds": {}, "specs": [{"t": "string"}], "definitions": {"Thing": definition}}

    assert definition["pd"] == {"mode": "On"}
    assert Types(document, 37)["Thing"].path_defaults == {"mode": "On"}
