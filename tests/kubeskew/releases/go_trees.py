"""Small source trees that tests write."""

from pathlib import Path
from textwrap import dedent

from kubeskew.releases.tree.source_tree import SourceTree

API = "staging/src/k8s.io/api"
META = "staging/src/k8s.io/apimachinery/pkg/apis/meta/v1"


def write_tree(root: Path, files: dict[str, str], minor: int = 36) -> SourceTree:
    """`files` are by path, in Go without their package clause; what every tree has is there without them."""
    needed = {"pkg/apis/core/types.go": "", f"{API}/core/v1/types.go": ""}
    for path, text in (needed | files).items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        source = dedent(text)
        file.write_text(
            f"package {file.parent.name}\n\n{source}" if path.endswith(".go") else source, "utf-8"
        )
    spec = root / "api/openapi-spec/swagger.json"
    spec.parent.mkdir(parents=True, exist_ok=True)
    if not spec.exists():
        spec.write_text('{"definitions": {}}')
    version = root / "staging/src/k8s.io/component-base/version/base.go"
    version.parent.mkdir(parents=True, exist_ok=True)
    version.write_text(f'package version\n\nconst DefaultKubeBinaryVersion = "1.{minor}"\n')
    return SourceTree(root)
