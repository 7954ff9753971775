"""Feature gates as a source tree registers them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from written_trees import written_tree

from kubeskew.releases.catalogue.inputs import Inputs
from kubeskew.releases.tree.gates import gates
from kubeskew.releases.tree.go_syntax import TreeError

ROOT = Path(__file__).parents[3]
HACK = ROOT / "hack" / "catalogue"
KUBE = "pkg/features/kube_features.go"
GENERIC = "staging/src/k8s.io/apiserver/pkg/features/kube_features.go"
TABLES = """package features

import (
	"runtime"

	"k8s.io/apimachinery/pkg/util/version"
	genericfeatures "k8s.io/apiserver/pkg/features"
	"k8s.io/component-base/featuregate"
)

const (
	letDefault = false
	Flat featuregate.Feature = "FlatGate"
	Moving = featuregate.Feature("MovingGate")
	Later featuregate.Feature = "LaterGate"
	Carried featuregate.Feature = "CarriedGate"
)

var defaults = map[featuregate.Feature]featuregate.FeatureSpec{
	Flat: {Default: letDefault, PreRelease: featuregate.Alpha},
}

var versioned = map[featuregate.Feature]featuregate.VersionedSpecs{
	Moving: {
		{Version: version.MustParse("1.30"), Default: false, PreRelease: featuregate.Alpha},
		// a remark
		{Version: version.MustParse("1.34"), LockToDefault: true, PreRelease: featuregate.GA}, // x
	},
	Later: {
		{Version: version.MustParse("1.36"), Default: runtime.GOOS != "windows", PreRelease: Beta},
	},
	genericfeatures.Shared: {
		{Version: version.MustParse("1.20"), Default: true, PreRelease: featuregate.Beta},
	},
}

var dependencies = map[featuregate.Feature][]featuregate.Feature{
	Flat:   {},
	Moving: {genericfeatures.Shared, featuregate.Feature(Flat)},
	Later:  {Moving},
}

func init() {
	versioned[Carried] = featuregate.VersionedSpecs{
		{Version: version.MustParse("1.30"), Default: true, PreRelease: featuregate.Alpha},
	}
	for name, spec := range versioned {
		other[name] = featuregate.FeatureSpec{Default: spec.Default}
	}
}
"""
SHARED = """package features

import "k8s.io/component-base/featuregate"

const Shared featuregate.Feature = "SharedGate"
"""


def test_gates_as_they_are_in_the_minor_of_the_tree(tmp_path: Path) -> None:
    """Of versioned specs the newest up to the tree's minor acts; a gate without one is not known there."""
    found = gates(written_tree(tmp_path, {KUBE: TABLES, GENERIC: SHARED}, minor=34))

    assert found["gates"] == {
        "FlatGate": {"stage": "Alpha", "default": False, "locked": False},
        "MovingGate": {"stage": "GA", "default": False, "locked": True},
        "SharedGate": {"stage": "Beta", "default": True, "locked": False},
    }
    assert found["dependencies"] == {"MovingGate": ["SharedGate", "FlatGate"]}


def test_what_varies_is_reported(tmp_path: Path) -> None:
    """A default of an operating system is Linux's, and a gate that is put in at the start is no fact."""
    found = gates(written_tree(tmp_path, {KUBE: TABLES, GENERIC: SHARED}))

    assert found["gates"]["LaterGate"] == {"stage": "Beta", "default": True, "locked": False}
    assert "CarriedGate" not in found["gates"]
    assert found["variations"] == {
        "CarriedGate": "put into the table when a process starts",
        "LaterGate": 'Default depends on the operating system: runtime.GOOS != "windows"',
    }


@pytest.mark.parametrize(
    ("written", "instead", "problem"),
    [
        ("featuregate.GA}, // x", "featuregate.Gone}, // x", "27: the stage of MovingGate cannot be read"),
        ("letDefault = false", "letDefault = other()", "20: this is no boolean constant that can be read"),
        ('MustParse("1.30"), Default: false', "Parse(x), Default: false", "25: the version of MovingGate"),
        (
            "genericfeatures.Shared: {",
            "genericfeatures.Missing: {",
            "32: this is no string constant",
        ),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, written: str, instead: str, problem: str) -> None:
    """An error has the file and the line."""
    assert written in TABLES
    tree = written_tree(tmp_path, {KUBE: TABLES.replace(written, instead), GENERIC: SHARED})

    with pytest.raises(TreeError, match=f"kube_features.go:{problem}"):
        gates(tree)


def test_a_tree_without_gates_is_refused(tmp_path: Path) -> None:
    """No tree of Kubernetes is without."""
    with pytest.raises(TreeError, match="has no feature gates"):
        gates(written_tree(tmp_path, {}))


def test_gates_of_releases(tmp_path: Path) -> None:
    """Trees and loose files give histories; what is not named stays, and unchanged releases are one row."""
    facts, loose = tmp_path / "facts", tmp_path / "loose"
    facts.mkdir()
    loose.mkdir()
    for name, text in (("kube.go", TABLES), ("generic.go", SHARED)):
        (loose / name).write_text(text, "utf-8")
    known = {
        "Gone": [[28, 29, "Alpha", 0, 0]],
        "FlatGate": [[34, 34, "Beta", 1, 0]],
        "SharedGate": [[34, 34, "GA", 1, 1]],
    }
    Inputs(facts).put_table("gates", {"gates": known, "dependencies": {"FlatGate": [[34, 34, ["Gone"]]]}})
    commands = [["gates", "1.30", str(loose)]]
    for minor in (33, 34):
        written_tree(tmp_path / str(minor), {KUBE: TABLES, GENERIC: SHARED}, minor)
        commands.append(["read", str(tmp_path / str(minor)), "gates"])

    for command in commands:
        arguments = [
            sys.executable,
            str(HACK / "facts.py"),
            "--facts",
            str(facts),
            *command,
            "--keep",
            "SharedGate",
        ]
        subprocess.run(
            arguments, check=True, capture_output=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
        )

    table = Inputs(facts).table("gates")
    assert table["gates"] == {
        "FlatGate": [[30, 30, "Alpha", 0, 0], [33, 34, "Alpha", 0, 0]],
        "Gone": [[28, 29, "Alpha", 0, 0]],
        "MovingGate": [[30, 30, "Alpha", 0, 0], [33, 33, "Alpha", 0, 0], [34, 34, "GA", 0, 1]],
        "SharedGate": [[34, 34, "GA", 1, 1]],
    }
    needed = ["SharedGate", "FlatGate"]
    assert table["dependencies"] == {"MovingGate": [[30, 30, needed], [33, 34, needed]]}
