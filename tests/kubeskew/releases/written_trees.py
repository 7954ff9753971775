"""Small Kubernetes source trees that tests write."""

from collections.abc import Mapping
from pathlib import Path

from kubeskew.releases.tree.source_tree import SourceTree

_BASE = "staging/src/k8s.io/component-base/version/base.go"
_NEEDED = {
    "pkg/apis/core/types.go": "package core\n",
    "staging/src/k8s.io/api/core/v1/types.go": "package v1\n",
    "api/openapi-spec/swagger.json": "{}",
}


def written_tree(root: Path, files: Mapping[str, str], minor: int = 36) -> SourceTree:
    """A tree of that minor with these files and the few that every tree has."""
    version = f'package version\n\nconst DefaultKubeBinaryVersion = "1.{minor}"\n'
    for name, text in {**_NEEDED, _BASE: version, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return SourceTree(root)
