"""Gates of resources as the storage providers of a source tree have them."""

from pathlib import Path

import pytest
from written_trees import written_tree

from kubeskew.releases.tree.go_syntax import TreeError
from kubeskew.releases.tree.resource_gates import resource_gates

VERSION = 'package {0}\n\nvar SchemeGroupVersion = schema.GroupVersion{{Group: "{1}", Version: "{0}"}}\n'
PROVIDER = """package rest

import (
	v1 "k8s.io/api/things/v1"
	v1beta1 "k8s.io/api/things/v1beta1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"
)

func (p Provider) v1Storage(source Source) map[string]rest.Storage {
	storage := map[string]rest.Storage{}
	if resource := "things"; source.ResourceEnabled(v1.SchemeGroupVersion.WithResource(resource)) {
		storage[resource] = things
		storage[resource+"/status"] = status
		if p.Scaled && utilfeature.DefaultFeatureGate.Enabled(features.Resizing) {
			storage[resource+"/resize"] = resize
		}
	}
	if resource := "halves"; source.ResourceEnabled(v1.SchemeGroupVersion.WithResource(resource)) {
		storage[resource] = halves
	}
	if resource := "gated"; source.ResourceEnabled(v1.SchemeGroupVersion.WithResource(resource)) {
		if !utilfeature.DefaultFeatureGate.Enabled(features.Gated) {
			klog.Warning("off")
		} else {
			gated, err := store.NewREST()
			storage[resource] = gated
			storage[resource+"/status"] = gated
		}
	}
	return storage
}

func (p Provider) v1beta1Storage(source Source) map[string]rest.Storage {
	if resource := "halves"; source.ResourceEnabled(v1beta1.SchemeGroupVersion.WithResource(resource)) {
		if utilfeature.DefaultFeatureGate.Enabled(features.Gated) {
			storage[resource] = halves
		}
	}
	return storage
}

func (p Provider) GroupName() string {
	return "things.k8s.io"
}
"""
GATES = """package features

const (
	Gated    = "GatedThings"
	Resizing = "Resizing"
)
"""
FILES = {
    "pkg/registry/things/rest/storage_things.go": PROVIDER,
    "pkg/features/kube_features.go": GATES,
    "staging/src/k8s.io/api/things/v1/register.go": VERSION.format("v1", "things.k8s.io"),
    "staging/src/k8s.io/api/things/v1beta1/register.go": VERSION.format("v1beta1", "things.k8s.io"),
}


def test_gates_of_resources(tmp_path: Path) -> None:
    """A gate belongs to a resource, to one of its versions, or to a subresource whose parent has none."""
    assert resource_gates(written_tree(tmp_path, FILES)) == {
        "gated.things.k8s.io": "GatedThings",
        "halves.things.k8s.io/v1beta1": "GatedThings",
        "things/resize": "Resizing",
    }


@pytest.mark.parametrize(
    ("written", "instead", "problem"),
    [
        ("features.Resizing", "features.Unknown", "15: this is no string constant that can be read"),
        (
            "features.Resizing)",
            "features.Resizing) && DefaultFeatureGate.Enabled(features.Gated)",
            "16: a resource that needs several gates cannot be imported",
        ),
    ],
)
def test_conditions_that_cannot_be_followed(tmp_path: Path, written: str, instead: str, problem: str) -> None:
    """An unknown gate and several gates of one resource are refused with file and line."""
    provider = PROVIDER.replace(written, instead)

    with pytest.raises(TreeError, match=f"storage_things.go:{problem}"):
        resource_gates(
            written_tree(tmp_path, {**FILES, "pkg/registry/things/rest/storage_things.go": provider})
        )


def test_a_tree_without_storage_providers_is_refused(tmp_path: Path) -> None:
    """No tree of Kubernetes is without."""
    with pytest.raises(TreeError, match="has no storage providers"):
        resource_gates(written_tree(tmp_path, {}))
