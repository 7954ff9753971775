"""What a client sends and what it wants back.

Source: k8s.io/apiserver/pkg/endpoints/handlers/negotiation/negotiate.go, 1.36. Nothing is answered
in protobuf or CBOR: a client that offers them among others gets JSON. Typed Go clients send protobuf all the
same, so it is read.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from apimachinery import errors

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
CBOR = "application/cbor"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

ACCEPTED = (JSON, YAML, PROTOBUF)
_META_GROUP = "meta.k8s.io"
_TABLE_VERSIONS = ("v1", "v1beta1")


class Accepted(NamedTuple):
    """The answer's form. `convert` is empty, Table, PartialObjectMetadata or PartialObjectMetadataList."""

    media_type: str
    convert: str = ""
    version: str = ""  # of meta.k8s.io
    pretty: bool = False


class _Clause(NamedTuple):
    type: str
    params: dict[str, str]
    quality: float
    position: int


def body_type(content_type: str, *, protobuf: bool = False) -> str:
    """The media type of a body that can be read; JSON if it says nothing. Raises 415.

    `protobuf` is whether it may be that: built-in kinds only, and only what clients send, never the answer.
    """
    kind = content_type.split(";", 1)[0].strip().lower()
    if not kind:
        return JSON
    if kind in {JSON, YAML} or (kind == PROTOBUF and protobuf):
        return kind
    raise unsupported(ACCEPTED)


def unsupported(accepted: Sequence[str]) -> errors.StatusError:
    """415 as the negotiation gives it: without details."""
    error = errors.unsupported_media_type(accepted)
    error.details = None
    return error


@lru_cache(maxsize=256)
def accepted(accept: str, convertible: bool = True) -> Accepted:
    """The best form for an Accept header; raises 406. Without `convertible` only the object as it is."""
    for clause in _clauses(accept):
        media_type = _media_type(clause.type)
        if media_type is None:
            continue
        wanted = clause.params.get("as", "")
        if not wanted:
            return Accepted(media_type)
        if convertible and _can_convert(wanted, clause.params):
            return Accepted(media_type, wanted, clause.params.get("v", ""))
    error = errors.not_acceptable(f"only the following media types are accepted: {', '.join(ACCEPTED)}")
    error.details = None
    raise error


def _media_type(kind: str) -> str | None:
    if kind in {"*/*", "application/*", JSON}:
        return JSON
    return YAML if kind == YAML else None


def _can_convert(wanted: str, params: dict[str, str]) -> bool:
    if params.get("g", "") != _META_GROUP:
        return False
    return (
        wanted in {"Table", "PartialObjectMetadata", "PartialObjectMetadataList"}
        and params.get("v", "") in _TABLE_VERSIONS
    )


def _clauses(accept: str) -> list[_Clause]:
    """The clauses of an Accept header, best first: by quality, then as written."""
    if not accept.strip():
        return [_Clause("*/*", {}, 1.0, 0)]
    clauses = []
    for position, part in enumerate(accept.split(",")):
        kind, *rest = (piece.strip() for piece in part.split(";"))
        params = dict(piece.split("=", 1) for piece in rest if "=" in piece)
        clauses.append(_Clause(kind.lower(), params, _quality(params.pop("q", "1")), position))
    return sorted(clauses, key=lambda clause: (-clause.quality, clause.position))


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def prefers_yaml(accept: str) -> bool:
    """Whether an error for this client is written as YAML."""
    if YAML not in accept:
        return False
    try:
        return accepted(accept).media_type == YAML
    except errors.StatusError:
        return False


def takes_protobuf_only(accept: str) -> bool:
    """Whether a client takes nothing else: it is told in protobuf that there is none."""
    if PROTOBUF not in accept:
        return False
    return not any(_media_type(clause.type) for clause in _clauses(accept))


def to_yaml(value: Any) -> bytes:
    """A document as upstream writes YAML: keys sorted, lists not indented."""
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text = yaml.dump(value, Dumper=dumper, sort_keys=True, allow_unicode=True, width=2**31 - 1)
    return text.encode()
