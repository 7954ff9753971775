"""Imports of source trees for tests: an enhancement's branch, and the next minor."""

from pathlib import Path
from typing import Any

from source_trees import Tree, tree

from kubeskew.apimachinery.versions import Version
from kubeskew.releases.directory import ImportedRelease, ReleaseDirectory
from kubeskew.releases.import_tree import read_release
from kubeskew.releases.tree.source_tree import SourceTree

BOOTSTRAPPING = {"kubernetes.io/bootstrapping": "rbac-defaults"}


def enhanced(minor: int = 37) -> Tree:
    """A branch with a gate, a field behind it that has a declared rule, a kind, a role and a newer storage
    version."""
    made = tree(minor)
    made.add_gate("Fancy")
    made.add_field(
        "core/v1",
        "PodSpec",
        "fancy",
        type_="*string",
        markers=["featureGate=Fancy", "k8s:optional", "k8s:maxLength=5"],
        schema={"type": "string", "description": "Fancy is the name of a colour."},
    )
    made.add_kind("PriorityClass", "Widget", "widgets", group="scheduling.k8s.io", version="v1")
    made.storage["resource.k8s.io/DeviceTaintRule"] = "v1"
    made.roles.append(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {
                "name": "system:painter",
                "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
            },
            "rules": [{"apiGroups": ["scheduling.k8s.io"], "resources": ["widgets"], "verbs": ["get"]}],
        }
    )
    return made


def import_into(releases: Path, made: Tree, root: Path, name: str, base: str = "1.37") -> ImportedRelease:
    release, files = read_release(SourceTree(made.write(root)), name, Version.parse(base), lambda _: None)
    ReleaseDirectory(releases).write(release, files)
    return release


def pod(name: str, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "busybox"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": containers, **spec},
    }
