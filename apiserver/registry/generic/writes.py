"""Handlers give a WriteRequest to the registry, and get a WriteResult."""

from dataclasses import dataclass, field
from typing import NamedTuple

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import Resource
from kubeskew.apiserver.storage.records import Author
from kubeskew.apiserver.user import User


@dataclass(slots=True)
class WriteRequest:
    """Texts put into `warnings` reach the client as Warning headers."""

    user: User
    author: Author
    verb: str = field(kw_only=True)  # of the request
    namespace: str = ""
    subresource: str = ""
    dry_run: bool = False
    warnings: list[str] = field(default_factory=list)
    requested: Resource | None = None  # in the version of the request
    options: Object = field(default_factory=dict)  # CreateOptions, PatchOptions, …, as the client gave them
    annotations: dict[str, str] = field(default_factory=dict)  # for the audit event
    admitted: bool = False  # admission has seen what this write is a part of (an eviction, a scale)
    collection: bool = False  # one of many: the request names no object
    size: int = 0  # of the request's body, in bytes

    @property
    def group(self) -> str:
        """The group of the request may differ from the hub's."""
        return self.requested.group if self.requested is not None else ""


class WriteResult(NamedTuple):
    """The object is in the hub version.

    `value` is what the log holds (without resourceVersion), None for a dry run; `revision` its revision, 0
    for what a dry run would have created.
    """

    obj: Object
    revision: int
    value: bytes | None = None
    created: bool = False
    deleted: bool = False
