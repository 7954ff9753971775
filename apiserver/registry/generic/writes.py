"""Defines the input and the result of a write, between handlers and registry."""

from dataclasses import dataclass, field
from typing import NamedTuple

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import Resource
from kubeskew.apiserver.storage.records import Author
from kubeskew.apiserver.user import User


@dataclass(slots=True)
class WriteRequest:
    """Holds one write. Texts put into `warnings` reach the client as Warning headers."""

    user: User
    author: Author
    namespace: str = ""
    subresource: str = ""
    dry_run: bool = False
    group: str = ""  # of the request, which may differ from the hub's
    warnings: list[str] = field(default_factory=list)
    requested: Resource | None = None  # in the version of the request
    options: Object = field(default_factory=dict)  # CreateOptions, PatchOptions, …, as the client gave them
    annotations: dict[str, str] = field(default_factory=dict)  # for the audit event
    admitted: bool = False  # admission has seen what this write is a part of (an eviction, a scale)
    verb: str = "update"  # of the request
    collection: bool = False  # one of many: the request names no object
    size: int = 0  # of the request's body, in bytes


class WriteResult(NamedTuple):
    """The object after a write, in the hub version.

    `value` is what the log holds (without resourceVersion), None for a dry run; `revision` its revision, 0
    for what a dry run would have created.
    """

    obj: Object
    revision: int
    value: bytes | None = None
    created: bool = False
    deleted: bool = False
