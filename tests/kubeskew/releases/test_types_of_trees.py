"""The catalogue's types, made of facts that come from a tree."""

from pathlib import Path
from typing import Any

import pytest
from written_trees import API, META, written_tree

from kubeskew.releases.catalogue.types import release
from kubeskew.releases.tree.go_types import types

_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
META_TYPES = """
import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

type Time struct {
	time.Time
}
type Reason string
type Common struct {
	Code *int32 `json:"code,omitempty"`
}
type Status struct {
	Common
	At     Time       `json:"at,omitempty"`
	Ended  Time       `json:"ended,omitzero"`
	Until  *Time      `json:"until,omitempty"`
	Why    Reason     `json:"why,omitempty"`
	UID    *types.UID `json:"uid,omitempty"`
	Names  []string   `json:"names"`
	Plain  string     `json:"plain,omitempty"`
}
"""
TYPES = """
import (
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	quantities "k8s.io/apimachinery/pkg/api/resource"
)

type Mode = core.Mode
type Thing struct {
	*core.Named `json:",inline"`
	Mode   Mode                    `json:"mode,omitempty"`
	Amount quantities.Quantity     `json:"amount,omitempty"`
	Ended  *meta.Time              `json:"ended,omitempty"`
	Share  float64                 `json:"share,omitempty"`
}
"""
CORE = """
// +enum
type Mode string
const On Mode = "On"
type Named struct {
	Name string `json:"name"`
}
"""


def _time(path: str) -> dict[str, str]:
    return {"$ref": f"#/definitions/{_META}{path}"}


OPENAPI = {
    "definitions": {
        f"{_META}Time": {"type": "string", "format": "date-time"},
        f"{_META}Status": {
            "type": "object",
            "properties": {
                "code": {"type": "integer", "format": "int32"},
                "at": _time("Time"), "ended": _time("Time"), "until": _time("Time"),
                "why": {"type": "string"}, "uid": {"type": "string"}, "plain": {"type": "string"},
                "names": {"type": "array", "items": {"type": "string"}},
            },
        },
    },
}  # fmt: skip


def made(root: Path, source: str = TYPES) -> dict[str, Any]:
    files = {
        f"{API}/apps/v1/types.go": source,
        f"{API}/core/v1/types.go": CORE,
        f"{META}/types.go": META_TYPES,
    }
    return release(types(written_tree(root, files)), OPENAPI, published=True)


def test_machinery(tmp_path: Path) -> None:
    """Pointers, omitted zeros and names of types that OpenAPI does not say come from the Go source."""
    time = f"{_META}Time"

    assert made(tmp_path)[f"{_META}Status"]["fields"] == {
        "code": {"t": "int32", "o": 1, "p": 1},
        "at": {"t": time},
        "ended": {"t": time, "o": 1},
        "until": {"t": time, "o": 1, "p": 1},
        "why": {"t": "'v1.Reason'string", "o": 1},
        "uid": {"t": "'types.UID'string", "o": 1, "p": 1},
        "names": {"t": "[]string"},
        "plain": {"t": "string", "o": 1},
    }


def test_names_of_packages(tmp_path: Path) -> None:
    """The imports decide on what a qualified type is, also of aliases and embedded structs."""
    found = made(tmp_path)

    assert found["io.k8s.api.core.v1.Mode"] == {"values": ["On"]}
    assert found["io.k8s.api.apps.v1.Thing"]["fields"] == {
        "name": {"t": "string", "r": 1},
        "mode": {"t": "io.k8s.api.core.v1.Mode", "o": 1},
        "amount": {"t": "io.k8s.apimachinery.pkg.api.resource.Quantity"},
        "ended": {"t": f"{_META}Time", "o": 1, "p": 1},
        "share": {"t": "double", "o": 1},
    }


@pytest.mark.parametrize(
    ("type_", "problem"),
    [
        ("Missing", "apps/v1: there is no type Missing"),
        ("core.Missing", "core/v1: there is no type Missing"),
        ("sql.DB", "apps/v1: the type sql.DB is unknown (database/sql)"),
        (
            "meta.Odd",
            "apps/v1: the type meta.Odd is unknown (k8s.io/apimachinery/pkg/apis/meta/v1)",
        ),
        ("func(int) bool", "apps/v1: a field of the type func(int) bool is unknown"),
        ("map[int]string", "apps/v1: a map with keys of the type int is unknown"),
        ("map[Missing]string", "apps/v1: there is no type Missing"),
        ("struct{ A int }", "apps/v1: a field of the type struct{ A int } is unknown"),
    ],
)
def test_types_that_are_unknown(tmp_path: Path, type_: str, problem: str) -> None:
    """A field of a type that no API can have is refused in one line."""
    paths = ("k8s.io/api/core/v1", "k8s.io/apimachinery/pkg/apis/meta/v1", "database/sql")
    imports = "".join(
        f'import {name} "{path}"\n' for name, path in zip(("core", "meta", "sql"), paths, strict=True)
    )

    with pytest.raises(ValueError, match=r"^(apps|core)/v1: ") as refused:
        made(tmp_path, f'{imports}type A struct {{\n\tB {type_} `json:"b"`\n}}\n')

    assert str(refused.value) == f"{problem}, in field b of apps/v1.A"


def test_defaults_that_name_constants(tmp_path: Path) -> None:
    """A marker's default is the value of the constant that it names, of the package or of another."""
    source = """
const Usual = "x"
type A struct {
	// +default=ref(Usual)
	B string `json:"b,omitempty"`
	// +default=ref(k8s.io/api/core/v1.On)
	C string `json:"c,omitempty"`
	// +default={"a": 1}
	D string `json:"d,omitempty"`
}
"""
    fields = made(tmp_path, source)["io.k8s.api.apps.v1.A"]["fields"]

    assert {name: spec["d"] for name, spec in fields.items()} == {"b": "x", "c": "On", "d": {"a": 1}}


@pytest.mark.parametrize(
    ("marker", "problem"),
    [
        ("default=ref(Missing)", "names no constant; fix it and import again"),
        ("default=x", r"^\+default=x is no JSON, in field b of apps/v1.A$"),
    ],
)
def test_defaults_that_cannot_be_read(tmp_path: Path, marker: str, problem: str) -> None:
    """They are refused in one line."""
    with pytest.raises(ValueError, match=problem):
        made(tmp_path, f'type A struct {{\n\t// +{marker}\n\tB string `json:"b"`\n}}\n')


@pytest.mark.parametrize(
    "source", ["type A = B\ntype B = A\ntype C struct {\n\tD A\n}\n", "type A struct {\n\t*A\n}\n"]
)
def test_types_that_are_made_of_themselves(tmp_path: Path, source: str) -> None:
    """They are refused in one line."""
    with pytest.raises(ValueError, match=r"^types are made of themselves in a circle$"):
        made(tmp_path, source)
