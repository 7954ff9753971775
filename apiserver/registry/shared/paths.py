"""Holds the rules of paths and file modes inside volumes."""

from kubeskew.apimachinery.field import FieldError, invalid, required

MODE_TEXT = "must be a number between 0 and 0777 (octal), both inclusive"


def without_backsteps(path: str, value: str) -> list[FieldError]:
    """Checks that a path has no `..` anywhere."""
    return [invalid(path, value, "must not contain '..'")] if ".." in value.split("/") else []


def descending(path: str, value: str) -> list[FieldError]:
    """Checks that a path is relative, and never leads upwards."""
    errors = [invalid(path, value, "must be a relative path")] if value.startswith("/") else []
    return errors + without_backsteps(path, value)


def local_file(path: str, value: str) -> list[FieldError]:
    """Checks the name of a file made in a volume: given, descending, and not beginning with two dots."""
    return unreserved(path, value) if value else [required(path)]


def unreserved(path: str, value: str) -> list[FieldError]:
    errors = descending(path, value)
    if value.startswith("..") and not value.startswith("../") and ".." not in value.split("/"):
        errors.append(invalid(path, value, "must not start with '..'"))
    return errors


def mode(path: str, value: int | None) -> list[FieldError]:
    return [] if value is None or 0 <= value <= 0o777 else [invalid(path, value, MODE_TEXT)]
