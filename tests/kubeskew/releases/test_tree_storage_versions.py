"""Storage versions as a source tree chooses them."""

import json
from pathlib import Path

import pytest
from written_trees import written_tree

from kubeskew.releases.tree.go_syntax import TreeError
from kubeskew.releases.tree.storage_versions import storage_versions

FACTORY = """package kubeapiserver

import (
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/things"
)

func NewConfig() *Config {
	resources := []schema.GroupVersionResource{
		// things.Resource("plains").WithVersion("v1beta1"),
		things.Resource("held").WithVersion("v1alpha1"),
	}
	storageFactory.AddCohabitatingResources(api.Resource("events"), things.Resource("events"))
}
"""
INSTALL = """package install

import (
	"k8s.io/kubernetes/pkg/apis/{group}/v1"
	"k8s.io/kubernetes/pkg/apis/{group}/v1beta1"
)

func Install(scheme *runtime.Scheme) {{
	utilruntime.Must(scheme.SetVersionPriority({versions}))
}}
"""
INTERNAL = """package {version}

import things{version} "k8s.io/api/{group}/{version}"

var SchemeGroupVersion = schema.GroupVersion{{Group: GroupName, Version: "{version}"}}
var localSchemeBuilder = &things{version}.SchemeBuilder

const GroupName = "{name}"
"""
EXTERNAL = """package {version}

func addKnownTypes(scheme *runtime.Scheme) error {{
	scheme.AddKnownTypes(SchemeGroupVersion, {kinds})
}}
"""
LIFECYCLE = """package {version}

func (in *{kind}) APILifecycleIntroduced() (major, minor int) {{
	return 1, {minor}
}}
"""
REPLACED = "func (in *Young) APILifecycleReplacement() schema.GroupVersionKind {\n\treturn other\n}\n"


def version(group: str, name: str, of: str, *kinds: str) -> dict[str, str]:
    """The two packages of an API version."""
    listed = ", ".join(f"&{kind}{{}}" for kind in kinds)
    return {
        f"pkg/apis/{group}/{of}/register.go": INTERNAL.format(group=group, name=name, version=of),
        f"staging/src/k8s.io/api/{group}/{of}/register.go": EXTERNAL.format(version=of, kinds=listed),
    }


def discovered(name: str, *kinds: tuple[str, str]) -> dict[str, object]:
    resources = [
        {
            "resource": plural,
            "singularResource": kind.lower(),
            "scope": "Cluster",
            "responseKind": {"group": "", "kind": kind},
            "verbs": ["get", "list"],
        }
        for plural, kind in kinds
    ]
    return {"metadata": {"name": name}, "versions": [{"version": "v1", "resources": resources}]}


KINDS = (("plains", "Plain"), ("held", "Held"), ("youngs", "Young"), ("newborns", "New"), ("events", "Event"))
EVENTS = {
    "name": "events", "singularName": "event", "namespaced": True, "kind": "Event", "verbs": ["list"]
}  # fmt: skip
FILES = {
    **version("core", "", "v1", "Event"),
    **version("things", "things.k8s.io", "v1", "Plain", "Held", "Young", "New", "Event"),
    **version("things", "things.k8s.io", "v1beta1", "Plain", "Young"),
    "pkg/apis/core/register.go": 'package core\n\nconst GroupName = ""\n',
    "pkg/apis/core/install/install.go": INSTALL.format(group="core", versions="v1.SchemeGroupVersion"),
    "pkg/apis/things/register.go": 'package things\n\nconst GroupName = "things.k8s.io"\n',
    "pkg/apis/things/install/install.go": INSTALL.format(
        group="things", versions="v1.SchemeGroupVersion, v1beta1.SchemeGroupVersion"
    ),
    "staging/src/k8s.io/api/things/v1/zz_generated.prerelease-lifecycle.go": LIFECYCLE.format(
        version="v1", kind="Young", minor=36
    )
    + LIFECYCLE.format(version="v1", kind="New", minor=36).partition("\n\n")[2],
    "pkg/kubeapiserver/default_storage_factory_builder.go": FACTORY,
    "api/discovery/aggregated_v2.json": json.dumps({"items": [discovered("things.k8s.io", *KINDS)]}),
    "api/discovery/api__v1.json": json.dumps({"resources": [EVENTS]}),
}


def test_versions_that_kinds_are_stored_in(tmp_path: Path) -> None:
    """An override wins, then the first version that the release before knew, then the group's first."""
    assert storage_versions(written_tree(tmp_path, FILES, minor=36)) == {
        "/Event": "v1",
        "things.k8s.io/Event": "v1",
        "things.k8s.io/Held": "things.k8s.io/v1alpha1",
        "things.k8s.io/New": "things.k8s.io/v1",
        "things.k8s.io/Plain": "things.k8s.io/v1",
        "things.k8s.io/Young": "things.k8s.io/v1beta1",
    }


def test_a_version_of_the_release_before_is_stored(tmp_path: Path) -> None:
    """One release later the preferred version is known to both."""
    stored = storage_versions(written_tree(tmp_path, FILES, minor=37))

    assert stored["things.k8s.io/Young"] == "things.k8s.io/v1"


@pytest.mark.parametrize("skips", [False, True])
def test_replaced_versions(tmp_path: Path, skips: bool) -> None:
    """A version that names a replacement is left out by trees whose server looks at that."""
    generated = "staging/src/k8s.io/api/things/v1beta1/zz_generated.prerelease-lifecycle.go"
    encoding = "staging/src/k8s.io/apiserver/pkg/server/storage/resource_encoding_config.go"
    files = {
        **FILES,
        generated: f"package v1beta1\n\n{REPLACED}",
        encoding: "package storage\n\ntype replacementInterface interface{}\n"
        if skips
        else "package storage\n",
    }

    stored = storage_versions(written_tree(tmp_path, files, minor=36))

    assert stored["things.k8s.io/Young"] == ("things.k8s.io/v1" if skips else "things.k8s.io/v1beta1")


@pytest.mark.parametrize(
    ("name", "written", "instead", "problem"),
    [
        (
            "pkg/kubeapiserver/default_storage_factory_builder.go",
            '"held"',
            "held()",
            "builder.go:11: this is no",
        ),
        (
            "pkg/apis/things/install/install.go",
            "v1.Scheme",
            "v9.Scheme",
            "install.go:9: this is no group version",
        ),
        (
            "pkg/kubeapiserver/default_storage_factory_builder.go",
            "things.Resource",
            "x.Resource",
            "builder.go:11",
        ),
        (
            "api/discovery/aggregated_v2.json",
            "things.k8s.io",
            "gone.k8s.io",
            "does not install the API group gone",
        ),
    ],
)
def test_what_cannot_be_read_is_named(
    tmp_path: Path, name: str, written: str, instead: str, problem: str
) -> None:
    """An error has the file and the line, or the group."""
    with pytest.raises(TreeError, match=problem):
        storage_versions(written_tree(tmp_path, {**FILES, name: FILES[name].replace(written, instead)}))


@pytest.mark.parametrize("document", ['{"items": [{}]}', '{"items": [3]}', '{"items": null}', "[]"])
def test_discovery_that_is_none_is_refused(tmp_path: Path, document: str) -> None:
    """JSON of another shape is no reason to fall over."""
    tree = written_tree(tmp_path, {**FILES, "api/discovery/aggregated_v2.json": document})

    with pytest.raises(TreeError, match=r"^[^\n]*aggregated_v2.json: this is no discovery document"):
        storage_versions(tree)
