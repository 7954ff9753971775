"""Rules of paths and file modes inside volumes."""

from collections.abc import Iterator

from apimachinery.field import FieldError, invalid, required

MODE_TEXT = "must be a number between 0 and 0777 (octal), both inclusive"


def without_backsteps(path: str, value: str) -> Iterator[FieldError]:
    """Not `..` anywhere."""
    if ".." in value.replace("\\", "/").split("/"):
        yield invalid(path, value, "must not contain '..'")


def descending(path: str, value: str) -> Iterator[FieldError]:
    """Relative, and never upwards."""
    if value.startswith("/"):
        yield invalid(path, value, "must be a relative path")
    yield from without_backsteps(path, value)


def local_file(path: str, value: str) -> Iterator[FieldError]:
    """The name of a file made in a volume: descending, and not beginning with two dots."""
    if not value:
        yield required(path)
        return
    yield from descending(path, value)
    if value.startswith("..") and not value.startswith("../") and value != "..":
        yield invalid(path, value, "must not start with '..'")


def mode(path: str, value: int | None) -> Iterator[FieldError]:
    if value is not None and not 0 <= value <= 0o777:
        yield invalid(path, value, MODE_TEXT)
