"""A Kubernetes source tree: its packages, files and commit.

Only files below the given directory are read; links that lead out of it are not followed.
"""

import json
import re
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import yaml
from tree_sitter import Node

from kubeskew.apimachinery.versions import OLDEST_IMPORTED
from kubeskew.releases.tree.build_constraints import is_built
from kubeskew.releases.tree.go_syntax import GoFile, TreeError, TypeDeclaration, Value

API = "k8s.io/api"
INTERNAL_APIS = "k8s.io/kubernetes/pkg/apis"
META = "k8s.io/apimachinery/pkg/apis/meta/v1"
_STAGING = "staging/src/"
_MODULE = "k8s.io/kubernetes"
_COMMIT = re.compile(r"[0-9a-f]{40,64}")
_NEEDED = (
    "pkg/apis/core/types.go",
    "staging/src/k8s.io/api/core/v1/types.go",
    "api/openapi-spec/swagger.json",
)


class Packages(Protocol):
    """Packages by their import paths."""

    def package(self, path: str) -> "Package": ...


class SourceTree:
    """Raises TreeError if the directory is no Kubernetes tree, or one older than 1.31."""

    def __init__(self, root: Path) -> None:
        self.root = root
        missing = [name for name in _NEEDED if not (root / name).is_file()]
        if missing:
            raise TreeError(
                f"{root} is no Kubernetes source tree: it has no {missing[0]}; name the root of a clone of "
                "kubernetes/kubernetes"
            )
        if self.minor and self.minor < OLDEST_IMPORTED:
            raise TreeError(
                f"{root} is Kubernetes 1.{self.minor}: trees of 1.{OLDEST_IMPORTED} and later can be imported"
            )
        self._packages: dict[str, Package] = {}

    @cached_property
    def minor(self) -> int:
        """The minor that the tree's documents are of; 0 if they do not say."""
        changelogs = (
            re.match(r"CHANGELOG-1\.(\d+)\.md$", path.name) for path in self.root.glob("CHANGELOG/*")
        )
        named = [int(found[1]) for found in changelogs if found]
        versions = self.file("pkg/features/kube_features.go") + self.file(
            "staging/src/k8s.io/component-base/version/base.go"
        )
        default = re.search(r'DefaultKubeBinaryVersion\s*=\s*"1\.(\d+)"', versions)
        return int(default[1]) if default else max(named, default=0)

    @cached_property
    def commit(self) -> str:
        """The commit that the tree's git directory says is checked out; empty if there is none."""
        found = _head(self.root)
        return found if _COMMIT.fullmatch(found) else ""

    def file(self, path: str) -> str:
        """The text of a file; empty if the tree does not have it. Raises TreeError if it is no text."""
        found = self.root / path
        if not is_inside(found, self.root) or not found.is_file():
            return ""
        try:
            return found.read_text("utf-8")
        except UnicodeDecodeError:
            raise TreeError(f"{found}: this is no UTF-8; fix it and import again") from None

    def json(self, path: str) -> Any:
        """A JSON file. Raises TreeError if it is missing or none."""
        text = self.file(path)
        if not text:
            raise TreeError(f"{self.root / path} is missing: a tree needs it; restore it and import again")
        try:
            return json.loads(text)
        except ValueError as error:
            raise TreeError(
                f"{self.root / path}: this is no JSON ({error}); fix it and import again"
            ) from None

    def misshapen(self, path: str, expected: str, error: Exception) -> TreeError:
        """The error for a JSON file that upstream's script makes and that is not as expected."""
        return TreeError(
            f"{self.root / path}: this is no {expected} ({type(error).__name__}: {error}); "
            "run hack/update-openapi-spec.sh and import again"
        )

    def yaml(self, path: str) -> Any:
        """A YAML file. Raises TreeError if it is none; None if the tree does not have it."""
        text = self.file(path)
        try:
            return yaml.load(text, yaml.CSafeLoader) if text else None
        except yaml.YAMLError as error:
            line = str(error).replace("\n", " ")
            raise TreeError(
                f"{self.root / path}: this is no YAML ({line}); fix it and import again"
            ) from None

    def package(self, path: str) -> "Package":
        """A package by its import path, `k8s.io/api/core/v1`; it has no files if the tree lacks it."""
        if path not in self._packages:
            self._packages[path] = Package(self.directory(path), path, self.root)
        return self._packages[path]

    def declared_type(self, expression: str, file: GoFile) -> TypeDeclaration | None:
        """The declaration of a type by its name in a file, `v1.Pod` or `*v1.Pod`."""
        package, name = file.named(expression)
        return self.package(package).types.get(name) if package else None

    def directory(self, package: str) -> Path:
        """The folder of a package's files: modules of their own are in staging."""
        if package == _MODULE or package.startswith(_MODULE + "/"):
            return self.root / package.removeprefix(_MODULE).lstrip("/")
        return self.root / _STAGING / package

    def packages_below(self, path: str) -> list[str]:
        """Import paths of the packages below one, in order, without test data."""
        directory = self.directory(path)
        found = {file.parent for file in directory.rglob("*.go") if "testdata" not in file.parts}
        return sorted(
            f"{path}/{folder.relative_to(directory).as_posix()}".removesuffix("/.") for folder in found
        )


class Package:
    """The files of one package that a build for Linux has, without tests; each is parsed when it is first
    asked for."""

    _pattern = "*.go"

    def __init__(self, directory: Path, path: str, root: Path) -> None:
        self.directory = directory
        self.path = path
        self._root = root
        self._files: dict[str, GoFile] = {}

    @cached_property
    def names(self) -> list[str]:
        """Names of its files, in order."""
        found = sorted(self.directory.glob(self._pattern)) if is_inside(self.directory, self._root) else []
        return [
            path.relative_to(self.directory).as_posix()
            for path in found
            if not path.name.endswith("_test.go")
            and is_inside(path, self._root)
            and path.is_file()
            and is_built(path.name, path.read_text("utf-8", "replace"))
        ]

    def file(self, name: str) -> GoFile | None:
        if name not in self.names:
            return None
        if name not in self._files:
            self._files[name] = GoFile(self.directory / name, self.path)
        return self._files[name]

    def needed(self, name: str) -> GoFile:
        """A file without which no tree is read. Raises TreeError if it is missing."""
        file = self.file(name)
        if file is None:
            raise TreeError(f"{self.directory / name} is missing: restore it and import again")
        return file

    def files(self, *, generated: bool = False) -> Iterable[GoFile]:
        """Parses what has not been parsed; without `zz_generated…` and `generated.pb.go` unless asked."""
        for name in self.names:
            if generated or not name.startswith(("zz_generated", "generated.")):
                file = self.file(name)
                if file is not None:
                    yield file

    @cached_property
    def types(self) -> dict[str, TypeDeclaration]:
        return {declared.name: declared for file in self.files() for declared in file.types()}

    @cached_property
    def constants(self) -> dict[str, Value]:
        """In the order of the source."""
        return {value.name: value for file in self.files() for value in file.constants()}

    @cached_property
    def values(self) -> dict[str, tuple[Node, GoFile]]:
        """The written values of constants and variables, with their files."""
        return {
            value.name: (value.node, file)
            for file in self.files()
            for value in (*file.constants(), *file.variables())
            if value.node is not None
        }


class LooseFiles(Package):
    """Go files below a directory that is no tree, such as sources that another project vendored.

    They are one package under any import path.
    """

    _pattern = "**/*.go"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, "loose", directory)

    def package(self, path: str) -> Package:
        return self


def is_inside(path: Path, root: Path) -> bool:
    """Neither links nor `..` lead out of the tree."""
    return path.resolve().is_relative_to(root.resolve())


def _head(root: Path) -> str:
    git = root / ".git"
    if git.is_file():  # a worktree
        git = root / git.read_text("utf-8", "replace").partition("gitdir:")[2].strip()
    head = git / "HEAD"
    if not head.is_file():
        return ""
    reference = head.read_text("utf-8", "replace").strip()
    if not reference.startswith("ref: "):
        return reference
    name = reference.removeprefix("ref: ")
    common = git / "commondir"
    folders = [git, git / common.read_text("utf-8").strip()] if common.is_file() else [git]
    for folder in folders:
        if (folder / name).is_file():
            return (folder / name).read_text("utf-8", "replace").strip()
        packed = folder / "packed-refs"
        for line in packed.read_text("utf-8", "replace").splitlines() if packed.is_file() else ():
            if line.endswith(" " + name):
                return line.split()[0]
    return ""
