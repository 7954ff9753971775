"""The directory of imported releases: one directory per release, which is there whole or not at all."""

import errno
import gzip
import io
import re
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import orjson

from kubeskew.apimachinery import gates
from kubeskew.apimachinery.catalogue import data
from kubeskew.apimachinery.imported_releases import FORMAT, NAME, SUMMARY
from kubeskew.apimachinery.versions import NEWEST_MINOR, SUPPORTED, Version, minor_of

_MEMBER = re.compile(r"^[a-z_]+\.json$")
_LARGEST = 64 << 20  # bytes of a file in an archive
_NEEDED = (data.FILE, gates.FILE)  # no component starts without these


class ReleaseError(ValueError):
    """A release that cannot be made, found or read; the text is one line that says what to do."""


@dataclass(frozen=True, slots=True)
class ImportedRelease:
    """The content of `release.json`.

    `counts` are of types, fields, gates and the like; `reported` lists by subject what the tree has and
    kubeskew does not follow.
    """

    name: str
    base: str
    tree_minor: int
    commit: str
    counts: Mapping[str, int] = field(default_factory=dict)
    reported: Mapping[str, list[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "ImportedRelease":
        """Raises KeyError or TypeError for a document of another shape."""
        tree = document["tree"]
        for value in (
            document["name"],
            document["base"],
            tree["commit"],
            *chain(*document["reported"].values()),
        ):
            if not isinstance(value, str):
                raise TypeError(f"{value!r} is no text")
        for value in (tree["minor"], *document["counts"].values()):
            if not isinstance(value, int):
                raise TypeError(f"{value!r} is no number")
        return cls(
            document["name"],
            document["base"],
            tree["minor"],
            tree["commit"],
            document["counts"],
            document["reported"],
        )

    def document(self) -> dict[str, Any]:
        shown = asdict(self)
        tree = {"minor": shown.pop("tree_minor"), "commit": shown.pop("commit")}
        return {"format": FORMAT, "name": shown.pop("name"), "base": shown.pop("base"), "tree": tree, **shown}


def check_name(name: str) -> None:
    """Raises ReleaseError for a name that no imported release can have."""
    if not NAME.fullmatch(name):
        raise ReleaseError(
            f"{name!r} is no name for a release: write 1.37+mine, with small letters and digits alone behind "
            "the +, or 1.38 for a new minor"
        )
    if name in map(str, SUPPORTED):
        raise ReleaseError(
            f"{name} is a release that kubeskew has itself: choose another name, such as {name}+mine"
        )


def check_base(name: str, base: Version) -> None:
    """Raises ReleaseError for a base that the release cannot have."""
    minor = minor_of(name)
    if minor > NEWEST_MINOR + 1:
        raise ReleaseError(
            f"{name} has no release before it here: name it 1.{NEWEST_MINOR + 1} or 1.{NEWEST_MINOR}+mine"
        )
    if base.imported_from is not None or base.preview:
        raise ReleaseError(f"--base {base} is no release of Kubernetes: name one such as 1.{NEWEST_MINOR}")
    if not 0 <= minor - base.minor <= 1:
        fitting = [f"1.{each}" for each in (minor, minor - 1) if each <= NEWEST_MINOR]
        raise ReleaseError(f"--base {base} does not suit {name}: write --base {' or '.join(fitting)}")


def base_of(name: str) -> Version:
    """The shipped release of the name's minor, or the newest."""
    return Version(min(minor_of(name), NEWEST_MINOR))


class ReleaseDirectory:
    """Works on the directory that holds all imported releases."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __iter__(self) -> Iterator[ImportedRelease]:
        """Yields releases in the order of versions; damaged ones are left out (`damaged`)."""
        found = [release for name in self._names() if (release := self._read(name)) is not None]
        yield from sorted(found, key=lambda release: Version.parse(release.name))

    def damaged(self) -> list[str]:
        """Names of directories that hold no readable release of this format."""
        return [name for name in self._names() if self._read(name) is None]

    def release(self, name: str) -> ImportedRelease:
        """Raises ReleaseError with the names that there are."""
        found = self._read(name) if name in self._names() else None
        if found is not None:
            return found
        if name in self.damaged():
            raise ReleaseError(
                f"release {name} in {self.path} is damaged or of another format: remove and import it again"
            )
        there = ", ".join(release.name for release in self) or "none; `kubeskew release import` makes one"
        raise ReleaseError(f"there is no imported release {name} in {self.path}; imported are: {there}")

    def write(self, release: ImportedRelease, files: Mapping[str, Any], replace: bool = False) -> None:
        """Writes a release in one step. Raises ReleaseError if the name is taken, unless it may `replace`."""
        self.check_free(release.name, replace)
        contents = {name: orjson.dumps(content) for name, content in sorted(files.items())}
        contents[SUMMARY] = orjson.dumps(release.document(), option=orjson.OPT_INDENT_2)
        self._place(release.name, contents, replace)

    def remove(self, name: str) -> None:
        """Removes a release, or what is left of a damaged one. Raises ReleaseError if it is not there."""
        if name not in self._names():
            self.release(name)
        shutil.rmtree(self.path / name)

    def export(self, name: str, file: Path) -> None:
        """Writes a release into an archive (tar, gzip) that `add` reads."""
        self.release(name)
        # A name or a time in the header would have every export differ.
        with (
            file.open("wb") as written,
            gzip.GzipFile("", "wb", 9, written, mtime=0) as compressed,
            tarfile.open(fileobj=compressed, mode="w") as archive,
        ):
            for path in sorted((self.path / name).glob("*.json")):
                entry = tarfile.TarInfo(f"{name}/{path.name}")
                content = path.read_bytes()
                entry.size, entry.mode = len(content), 0o644
                archive.addfile(entry, io.BytesIO(content))

    def add(self, file: Path, replace: bool = False) -> ImportedRelease:
        """Takes a release from an archive. Raises ReleaseError if it is none or its name is taken."""
        try:
            contents = _read_archive(file)
            documents = {name: orjson.loads(content) for name, content in contents.items()}
            document = documents[SUMMARY]
            release = ImportedRelease.of(document)
            whole = document["format"] == FORMAT
            if missing := [name for name in _NEEDED if name not in documents]:
                raise KeyError(f"{missing[0]} is not in it")
        except (
            tarfile.TarError,
            EOFError,
            AttributeError,
            KeyError,
            TypeError,
            ValueError,
            zlib.error,
        ) as error:
            raise ReleaseError(
                f"{file} is no exported release ({error}); `kubeskew release export` writes them"
            ) from error
        if not whole:
            raise ReleaseError(f"{file} is of another format: export it again with this version of kubeskew")
        self.check_free(release.name, replace)
        check_base(release.name, Version.parse(release.base))
        self._place(release.name, contents, replace)
        return release

    def _names(self) -> list[str]:
        if not self.path.is_dir():
            return []
        return sorted(
            path.name for path in self.path.iterdir() if path.is_dir() and NAME.fullmatch(path.name)
        )

    def _read(self, name: str) -> ImportedRelease | None:
        try:
            document = orjson.loads((self.path / name / SUMMARY).read_bytes())
            release = ImportedRelease.of(document)
            Version.parse(release.base)
            return release if document["format"] == FORMAT else None
        except (OSError, ValueError, AttributeError, KeyError, TypeError):
            return None

    def check_free(self, name: str, replace: bool = False) -> None:
        """Raises ReleaseError if the name is none that a release can have, or is taken and stays so."""
        check_name(name)
        if not replace and (self.path / name).exists():
            raise self._taken(name)

    def _taken(self, name: str) -> ReleaseError:
        return ReleaseError(
            f"release {name} is in {self.path} already: choose another name, or replace it with --replace"
        )

    def _place(self, name: str, contents: Mapping[str, bytes], replace: bool) -> None:
        """A rename makes the release visible; whatever happens before it leaves nothing behind."""
        self.path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".import-", dir=self.path) as temporary:
            made = Path(temporary) / name
            made.mkdir()
            for file, content in contents.items():
                (made / file).write_bytes(content)
            if replace and (self.path / name).exists():
                (self.path / name).rename(Path(temporary) / "replaced")
            try:
                made.rename(self.path / name)
            except OSError as error:
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                    raise
                raise self._taken(name) from error  # another import was faster
        self.path.touch()  # who has the list of releases reads it again


def _read_archive(file: Path) -> dict[str, bytes]:
    contents = {}
    with tarfile.open(file, "r:gz") as archive:
        for member in archive:
            name = member.name.rpartition("/")[2]
            if not member.isfile() or not _MEMBER.match(name) or member.size > _LARGEST:
                raise ReleaseError(f"{file} holds {member.name}, which no release has")
            extracted = archive.extractfile(member)
            contents[name] = extracted.read() if extracted is not None else b""
    return contents
