"""Writes Kubernetes source trees of the files that a test gives."""

import re
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

from kubeskew.releases.tree.source_tree import SourceTree

API = "staging/src/k8s.io/api"
META = "staging/src/k8s.io/apimachinery/pkg/apis/meta/v1"
_NEEDED = {
    "pkg/apis/core/types.go": "",
    f"{API}/core/v1/types.go": "",
    "api/openapi-spec/swagger.json": '{"definitions": {}}',
}
_CLAUSE = re.compile("^package ", re.MULTILINE)


def written_tree(root: Path, files: Mapping[str, str], minor: int = 36) -> SourceTree:
    """A tree of that minor with these files, by path, and the few that every tree has.

    Go without a package clause gets the one of its folder.
    """
    write_files(root, {**_NEEDED, **version_file(minor), **files})
    return SourceTree(root)


def write_files(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        source = dedent(text)
        if path.suffix == ".go" and not _CLAUSE.search(source):
            source = f"package {path.parent.name}\n\n{source}"
        path.write_text(source, "utf-8")


def version_file(minor: int) -> dict[str, str]:
    """The file that says of which minor a tree is."""
    path = "staging/src/k8s.io/component-base/version/base.go"
    return {path: f'package version\n\nconst DefaultKubeBinaryVersion = "1.{minor}"\n'}
