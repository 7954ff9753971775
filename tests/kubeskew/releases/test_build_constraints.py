"""Build constraints of a tree's Go files."""

from pathlib import Path

import pytest
from source_trees import tree

from kubeskew.releases.tree import go_types
from kubeskew.releases.tree.build_constraints import is_built
from kubeskew.releases.tree.source_tree import SourceTree


@pytest.mark.parametrize(
    ("name", "constraint", "built"),
    [
        ("types.go", "", True),
        ("types_windows.go", "", False),
        ("types_linux.go", "", True),
        ("types_darwin_amd64.go", "", False),
        ("types_linux_arm64.go", "", False),
        ("windows.go", "", True),
        ("types.go", "linux", True),
        ("types.go", "ignore", False),
        ("types.go", "!windows", True),
        ("types.go", "windows || (linux && !arm64)", True),
        ("types.go", "!(linux || darwin)", False),
        ("types.go", "go1.26 && unix", True),
    ],
)
def test_constraints(name: str, constraint: str, built: bool) -> None:
    """Names and `//go:build` lines decide, as for a build on Linux."""
    line = f"// A comment.\n\n//go:build {constraint}\n\n" if constraint else ""

    assert is_built(name, f"{line}package v1\n\n//go:build windows\n") is built


def test_types_of_other_builds(tmp_path: Path) -> None:
    """A file that is built elsewhere, or is a program of its own, changes no type."""
    made = tree()
    without = go_types.types(SourceTree(made.write(tmp_path / "without")))
    pod = '\n\npackage v1\n\ntype Pod struct {\n\tOdd int32 `json:"odd"`\n}\n'
    made.files["staging/src/k8s.io/api/core/v1/zz_windows.go"] = f"// Of Windows.{pod}"
    made.files["staging/src/k8s.io/api/core/v1/zz.go"] = f"//go:build ignore{pod}"

    assert go_types.types(SourceTree(made.write(tmp_path / "with"))) == without
