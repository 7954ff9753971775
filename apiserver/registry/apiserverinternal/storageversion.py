"""StorageVersion: validation, strategy and cells of tables.

Sources: pkg/apis/apiserverinternal/validation/validation.go,
pkg/registry/apiserverinternal/storageversion/strategy.go, 1.36.
"""

from collections.abc import Iterator
from typing import ClassVar

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, child, index, invalid, required
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.builtin import (
    BuiltIn,
    HandwrittenValidation,
    SpecKeptStatus,
    WithoutMetadata,
)
from kubeskew.apiserver.registry.generic.strategy import Strategy, StrategyContext
from kubeskew.apiserver.registry.tables.cells import UNSET, Cells, Subject, shortened


def name_texts(name: str) -> list[str]:
    group, dot, resource = name.rpartition(".")
    if not dot:
        return ["name must be in the form of <group>.<resource>"]
    return [
        *(f"the group segment {text}" for text in names.dns1123_subdomain(group)),
        *(f"the resource segment {text}" for text in names.dns1035_label(resource)),
    ]


def status_errors(status: Object) -> Iterator[FieldError]:
    servers = status.get("storageVersions") or []
    for position, server in enumerate(servers):
        yield from _server(server, index("status.storageVersions", position))
    versions = sorted({server.get("encodingVersion") or "" for server in servers})
    actual = versions[0] if len(versions) == 1 else None
    yield from _common(actual, status.get("commonEncodingVersion"))
    yield from _conditions(status.get("conditions") or [], "status")


def _server(server: Object, path: str) -> Iterator[FieldError]:
    name, version = server.get("apiServerID") or "", server.get("encodingVersion") or ""
    at = child(path, "apiServerID")
    yield from (invalid(at, name, text) for text in names.dns1123_subdomain(name))
    if texts := _version_texts(version):
        yield invalid(child(path, "encodingVersion"), version, ",".join(texts))
    decodable, at = server.get("decodableVersions") or [], child(path, "decodableVersions")
    for position, decodable_version in enumerate(decodable):
        if texts := _version_texts(decodable_version):
            yield invalid(index(at, position), decodable_version, ",".join(texts))
    if version not in decodable:
        text = f"decodableVersions must include encodingVersion {version}"
        yield invalid(at, server.get("decodableVersions"), text)


def _version_texts(version: str) -> list[str]:
    parts = version.split("/")
    if len(parts) > 2:
        text = (
            "a DNS-1035 label, which must consist of lower case alphanumeric characters or '-', start with "
            "an alphabetic character, and end with an alphanumeric character"
        )
        shown = names.regex_text(text, "[a-z]([-a-z0-9]*[a-z0-9])?", "my-name", "abc-123")
        rest = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyVersion')"
        return [f"an apiVersion is {shown}{rest}"]
    texts = []
    if len(parts) == 2:
        found = names.dns1123_subdomain(parts[0]) if parts[0] else ["must be non-empty"]
        texts += [f"group part: {text}" for text in found]
    found = names.dns1035_label(parts[-1]) if parts[-1] else ["must be non-empty"]
    return [*texts, *(f"version part: {text}" for text in found)]


def _common(actual: str | None, reported: str | None) -> Iterator[FieldError]:
    path = "status.commonEncodingVersion"
    if actual is None and reported is not None:
        text = (
            "should be nil if servers do not agree on the same encoding version, or if there is no server "
            "reporting the supported versions yet"
        )
        yield invalid(path, reported, text)
    elif actual is not None and reported is None:
        yield invalid(path, None, f"the common encoding version is {actual}")
    elif actual != reported:
        yield invalid(path, reported, f"the actual common encoding version is {actual}")


def _conditions(conditions: list[Object], path: str) -> Iterator[FieldError]:
    """The path lacks the list's name, and the status shows the type, as upstream has it."""
    first: dict[str, int] = {}
    for position, condition in enumerate(conditions):
        at, kind = index(path, position), condition.get("type") or ""
        if kind in first:
            text = "the type of the condition is not unique, it also appears in conditions"
            yield invalid(child(at, "type"), kind, f"{text}[{first[kind]}]")
        first[kind] = position
        for name, value in (("type", kind), ("status", condition.get("status") or "")):
            yield from (invalid(child(at, name), kind, text) for text in names.qualified_name(value))
        for name in ("reason", "message"):
            if not condition.get(name):
                yield required(child(at, name), f"{name} cannot be empty")


class StorageVersionStatus(WithoutMetadata, SpecKeptStatus):
    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(status_errors(new.get("status") or {}))


class StorageVersionStrategy(HandwrittenValidation, BuiltIn):
    """The spec is empty, so a change of it needs no check."""

    update_checks = ()
    status: ClassVar[type[Strategy]] = StorageVersionStatus
    allow_unconditional_update = False

    def name_check(self, name: str, prefix: bool) -> list[str]:
        return name_texts(name)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(status_errors(obj.get("status") or {}))


def storage_version_cells(subject: Subject) -> Cells:
    stored = [
        f"{version.get('apiServerID', '')}={version.get('encodingVersion', '')}"
        for version in subject.items("status", "storageVersions")
    ]
    return {
        "CommonEncodingVersion": subject.text("status", "commonEncodingVersion", default=UNSET),
        "StorageVersions": shortened(stored) or UNSET,
    }
