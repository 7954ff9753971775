"""Readers of a source tree's published documents: OpenAPI, prose and discovery, of trees that tests write."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from written_trees import written_tree

from kubeskew.releases.catalogue.resources import resource_rows
from kubeskew.releases.tree.discovery import AGGREGATED, CORE, discovery, known_kinds
from kubeskew.releases.tree.documents import V2, descriptions, openapi
from kubeskew.releases.tree.go_syntax import TreeError
from kubeskew.releases.tree.source_tree import SourceTree

GVK = "x-kubernetes-group-version-kind"
WIDGET = "io.k8s.api.apps.v1.Widget"
STANDARD = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]

SWAGGER = {
    "definitions": {
        WIDGET: {
            "description": "Widget turns.",
            "type": "object",
            "required": ["description"],
            "properties": {
                "turns": {"type": "array", "items": {"type": "string"}, "description": "Turns so far."},
                "description": {"type": "string", "description": "Its own text."},
                "silent": {"type": "string"},
            },
            GVK: [{"group": "apps", "kind": "Widget", "version": "v1"}],
        }
    },
    "parameters": {
        "continue-abc": {"name": "continue", "in": "query", "description": "Where to go on."},
        "body-def": {"name": "body", "in": "body"},
    },
    "paths": {
        "/apis/apps/v1/widgets/{name}": {
            "parameters": [{"name": "name", "in": "path", "description": "name of the Widget"}],
            "patch": {
                "description": "partially update the specified Widget",
                "operationId": "patchAppsV1Widget",
                "consumes": ["application/json-patch+json"],
                "parameters": [{"name": "dryRun", "in": "query"}, {"$ref": "#/parameters/body-def"}],
                "x-kubernetes-action": "patch",
                GVK: {"group": "apps", "kind": "Widget", "version": "v1"},
            },
        },
        "/version/": {"get": {"description": "get the version", "operationId": "getCodeVersion"}},
    },
    "securityDefinitions": {"BearerToken": {"description": "A token"}},
}
CORE_DISCOVERY = {
    "resources": [
        {"name": "pods/eviction", "kind": "Eviction", "group": "policy", "version": "v1", "singularName": "",
         "namespaced": True, "verbs": ["create"]},
        {"name": "pods/status", "kind": "Pod", "singularName": "", "namespaced": True,
         "verbs": ["get", "patch", "update"]},
        {"name": "pods", "kind": "Pod", "singularName": "pod", "namespaced": True, "shortNames": ["po"],
         "categories": ["all"], "verbs": STANDARD},
    ]
}  # fmt: skip
WIDGETS = {
    "resource": "widgets",
    "responseKind": {"group": "", "kind": "Widget", "version": ""},
    "scope": "Cluster",
    "singularResource": "widget",
    "verbs": ["get", "list"],
    "subresources": [
        {"subresource": "scale", "verbs": ["get", "patch", "update"],
         "responseKind": {"group": "autoscaling", "kind": "Scale", "version": "v1"}}
    ],
}  # fmt: skip
GROUPS = {
    "items": [
        {"metadata": {"name": "zoo.k8s.io"}, "versions": []},
        {"metadata": {"name": "apps"}, "versions": [{"version": "v1", "resources": [WIDGETS]}]},
    ]
}
REGISTER = """package v1beta1

const GroupName = "apps"

var SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1beta1"}

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion,
		&Widget{},
		&WidgetList{},
		&WidgetOptions{},
	)
	scheme.AddKnownTypes(SchemeGroupVersion, &metav1.Status{})
	return nil
}
"""

WIDGET_TYPES = """package v1

// Widget has another comment than the published document.
type Widget struct {
	// Not the published text.
	Turns []string `json:"turns"`
	// Published without a text.
	Silent string `json:"silent"`
	// Shape of the widget, which
	//   - is round
	//   - or is not
	// TODO: more shapes
	// +optional
	// +featureGate=WidgetShapes
	Shape *string `json:"shape,omitempty"`
	Sized `json:",inline"`
	// Hidden from JSON.
	Hidden string `json:"-"`
}

// +k8s:deepcopy-gen=true

// Wheel is new.
//
//
// It has "spokes".
// ---
// Not for users.
type Wheel struct {
	Round `json:",inline"`
}

type Round = Sized

// Sized is embedded.
type Sized struct {
	// How large
	// it is.
	Size int32 `json:"size"`
}
"""

Tree = Callable[..., SourceTree]


@pytest.fixture(name="tree")
def writer(tmp_path: Path) -> Tree:
    """Writes a tree of 1.38 that has these documents, and more files."""

    def write(
        v2: Any = SWAGGER, core: Any = CORE_DISCOVERY, aggregated: Any = GROUPS, **more: str
    ) -> SourceTree:
        documents = {V2: v2, CORE: core, AGGREGATED: aggregated}
        texts = {
            name: content if isinstance(content, str) else json.dumps(content)
            for name, content in documents.items()
        }
        return written_tree(tmp_path, texts | more, 38)

    return write


def test_published_documents_without_prose(tree: Tree) -> None:
    """Definitions keep their shape, operations their ids, kinds and parameters, and no text is left."""
    made = openapi(tree())

    assert made == {
        "version": "1.38",
        "definitions": {
            WIDGET: {
                "type": "object",
                "required": ["description"],
                "properties": {
                    "turns": {"type": "array", "items": {"type": "string"}},
                    "description": {"type": "string"},
                    "silent": {"type": "string"},
                },
                GVK: [{"group": "apps", "kind": "Widget", "version": "v1"}],
            }
        },
        "paths": {
            "/apis/apps/v1/widgets/{name}": {
                "patch": {
                    "id": "patchAppsV1Widget",
                    "action": "patch",
                    "gvk": {"group": "apps", "kind": "Widget", "version": "v1"},
                    "params": ["body-def", "dryRun"],
                    "consumes": ["application/json-patch+json"],
                }
            },
            "/version/": {"get": {"id": "getCodeVersion"}},
        },
    }


def test_prose_of_a_tree(tree: Tree) -> None:
    """The texts of definitions, fields, operations and parameters are kept apart from the shapes."""
    assert descriptions(tree()) == {
        "definitions": {
            WIDGET: {
                "doc": "Widget turns.",
                "fields": {"description": "Its own text.", "turns": "Turns so far."},
            }
        },
        "operations": {
            "getCodeVersion": "get the version",
            "patchAppsV1Widget": "partially update the specified Widget",
        },
        "parameters": {"continue-abc": "Where to go on.", "name": "name of the {kind}"},
        "token": "A token",
    }


def test_prose_of_what_is_not_published_yet(tree: Tree) -> None:
    """Types and fields that the documents lack are described by their comments, as generators make prose."""
    types = {
        "staging/src/k8s.io/api/apps/v1/types.go": WIDGET_TYPES,
        "staging/src/k8s.io/api/apps/v1beta1/types.go": WIDGET_TYPES.replace("package v1", "package v1beta1"),
    }

    made = descriptions(tree(**types))["definitions"]

    assert made == {
        WIDGET: {
            "doc": "Widget turns.",
            "fields": {
                "description": "Its own text.",
                "shape": "Shape of the widget, which\n  - is round\n  - or is not",
                "size": "How large it is.",
                "turns": "Turns so far.",
            },
        },
        "io.k8s.api.apps.v1.Sized": {"doc": "Sized is embedded.", "fields": {"size": "How large it is."}},
        "io.k8s.api.apps.v1.Wheel": {
            "doc": 'Wheel is new.\n\nIt has "spokes".',
            "fields": {"size": "How large it is."},
        },
    }


def test_discovery_of_a_tree(tree: Tree) -> None:
    """Both shapes of discovery give the facts of which the catalogue's rows are made."""
    made = discovery(tree())

    assert made["groupOrder"] == ["zoo.k8s.io", "apps"]
    pods, widgets = resource_rows({**made, "gates": {}}, {38: {}})[:2]
    assert pods == {
        "g": "", "v": "v1", "r": "pods", "k": "Pod", "s": "pod", "n": 1, "verbs": "std", "in": [38, 38],
        "short": ["po"], "cat": ["all"],
        "sub": {
            "eviction": {"k": "Eviction", "verbs": ["create"], "g": "policy", "v": "v1"},
            "status": {"k": "Pod", "verbs": ["get", "patch", "update"]},
        },
    }  # fmt: skip
    assert widgets == {
        "g": "apps", "v": "v1", "r": "widgets", "k": "Widget", "s": "widget", "n": 0,
        "verbs": ["get", "list"], "in": [38, 38],
        "sub": {"scale": {"k": "Scale", "verbs": ["get", "patch", "update"], "g": "autoscaling", "v": "v1"}},
    }  # fmt: skip


def test_kinds_that_are_only_decoded(tree: Tree) -> None:
    """A kind that an installed package registers and discovery lacks is known; lists and options are not."""
    internal, install = "k8s.io/kubernetes/pkg/apis/apps", "package install\n\nimport "
    made = tree(
        **{
            "pkg/apis/apps/install/install.go": f'{install}"{internal}/v1beta1"\n',
            "pkg/apis/apps/v1beta1/register.go": 'package v1beta1\n\nimport "k8s.io/api/apps/v1beta1"\n\n'
            "var localSchemeBuilder = &v1beta1.SchemeBuilder\n",
            "staging/src/k8s.io/api/apps/v1beta1/register.go": REGISTER,
            "staging/src/k8s.io/api/gone/v1/register.go": REGISTER.replace('"apps"', '"gone"'),
        }
    )
    facts = discovery(made)

    assert known_kinds(made, facts) == [("apps", "v1beta1", "Widget")]
    served = {"group": "apps", "version": "v1beta1", "kind": "Widget"}
    assert known_kinds(made, {"resources": [served]}) == []


@pytest.mark.parametrize(
    ("read", "documents", "file"),
    [
        (openapi, {"v2": {"definitions": {}}}, V2),
        (openapi, {"v2": {"definitions": {"a": 1}, "paths": {}}}, V2),
        (openapi, {"v2": []}, V2),
        (openapi, {"v2": {"definitions": {"a": {"$ref": "#/definitions/b"}}, "paths": {}}}, V2),
        (openapi, {"v2": {"definitions": {"a": {"required": "b"}}, "paths": {}}}, V2),
        (openapi, {"v2": "{"}, V2),
        (descriptions, {"v2": {"definitions": {}}}, V2),
        (discovery, {"core": {"resources": [{"name": "pods"}]}}, CORE),
        (discovery, {"core": {"resources": [CORE_DISCOVERY["resources"][2] | {"kind": 1}]}}, CORE),
        (discovery, {"aggregated": {"items": [{}]}}, AGGREGATED),
        (discovery, {"aggregated": "no"}, AGGREGATED),
    ],
)
def test_broken_documents(
    tree: Tree, read: Callable[[SourceTree], object], documents: dict[str, Any], file: str
) -> None:
    """A document that is none of Kubernetes is refused in one line that names the file."""
    with pytest.raises(TreeError) as refused:
        read(tree(**documents))

    assert f"/{file}: this is no" in str(refused.value)
    assert str(refused.value).endswith("import again")
    assert "\n" not in str(refused.value)
