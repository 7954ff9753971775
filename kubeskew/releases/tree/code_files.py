"""The files of a tree whose behaviour an import does not follow, with hashes of their code.

What kubeskew does in code comes from the base release. Where such a file differs between two trees, a report
can name it. Hashes are of the code alone: a comment that changes is no difference.
"""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from kubeskew.releases.tree.go_syntax import GoFile, TreeError
from kubeskew.releases.tree.source_tree import SourceTree

# Folders of which every file counts.
_FOLDERS = (
    "pkg/api",
    "pkg/certauthorization",
    "pkg/controller",
    "pkg/controlplane",
    "pkg/kubelet",
    "pkg/quota",
    "pkg/registry",
    "pkg/scheduler",
    "pkg/serviceaccount",
    "plugin/pkg",
    "staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver",
    "staging/src/k8s.io/apiextensions-apiserver/pkg/controller",
    "staging/src/k8s.io/apiextensions-apiserver/pkg/registry",
    "staging/src/k8s.io/apimachinery/pkg/api/validate",
    "staging/src/k8s.io/apimachinery/pkg/api/validation",
    "staging/src/k8s.io/apiserver/pkg",
    "staging/src/k8s.io/apiserver/plugin",
    "staging/src/k8s.io/component-helpers",
    "staging/src/k8s.io/controller-manager",
    "staging/src/k8s.io/dynamic-resource-allocation",
    "staging/src/k8s.io/endpointslice",
    "staging/src/k8s.io/kube-aggregator/pkg",
    "staging/src/k8s.io/kube-scheduler",
    "staging/src/k8s.io/pod-security-admission",
)
# Folders of types, of which only code counts: validation, hand-written defaults and conversions, helpers.
_TYPES = (
    "pkg/apis",
    "staging/src/k8s.io/apiextensions-apiserver/pkg/apis",
)
_CODE_OF_TYPES = re.compile(
    r"(^|/)(helpers?|validation|util)/|(validation|defaults|conversion|helper)\w*\.go$"
)
_LEFT_OUT_FOLDERS = frozenset(
    (
        *("allocatortesting", "client", "clientset", "example", "example2", "fake", "fuzzer", "generated"),
        *("informers", "listers", "mock", "openapi", "test", "testdata", "testing", "testutil", "testutils"),
        "windows",
    )
)
_LEFT_OUT_FILES = re.compile(
    r"(_test|_windows|_darwin|\.pb)\.go$|(^|/)(zz_generated|generated\.|doc\.go$|fake_|mock_|openshift)"
)


def code_files(tree: SourceTree) -> dict[str, str]:
    """SHA-256 of each file by its path in the tree, in order; of what is no Go the whole text counts."""
    found = {}
    for path in sorted(_paths(tree.root)):
        try:
            file = GoFile(path, "")
        except TreeError:  # broken, or newer Go than the parser knows: nothing else of an import reads it
            code = path.read_bytes()
        else:
            if file.is_generated:
                continue
            code = file.code()
        found[path.relative_to(tree.root).as_posix()] = hashlib.sha256(code).hexdigest()
    return found


def _paths(root: Path) -> Iterator[Path]:
    for folder in _FOLDERS:
        for path in (root / folder).rglob("*.go"):
            if _counts(path.relative_to(root)):
                yield path
    for folder in _TYPES:
        for path in (root / folder).rglob("*.go"):
            relative = path.relative_to(root)
            if _counts(relative) and _CODE_OF_TYPES.search(relative.as_posix()):
                yield path


def _counts(path: Path) -> bool:
    return _LEFT_OUT_FOLDERS.isdisjoint(path.parts) and not _LEFT_OUT_FILES.search(path.as_posix())
