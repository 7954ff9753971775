"""What a client sends and what it wants back.

Source: k8s.io/apiserver/pkg/endpoints/handlers/negotiation/negotiate.go, 1.36. Nothing is answered
in protobuf or CBOR: a client that offers them among others gets JSON. Typed Go clients send protobuf all the
same, so it is read.
"""

from collections.abc import Sequence
from typing import NamedTuple

from apimachinery import errors
from apimachinery.remembering import remembered

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


@remembered(256)
def accepted(accept: str, convertible: bool = True) -> Accepted:
    """The best form for an Accept header; raises 406. Without `convertible` only the object as it is."""
    for clause in _clauses(accept):
        media_type = _media_type(clause.type)
        if media_type is None:
            continue
        params = clause.params
        if params.get("stream", "watch") != "watch":
            continue
        pretty = params.get("pretty") == "1" and media_type == JSON
        if not params.keys() & {"as", "g", "v"}:
            return Accepted(media_type, pretty=pretty)
        if convertible and _can_convert(params.get("as", ""), params):
            return Accepted(media_type, params["as"], params.get("v", ""), pretty)
    error = errors.not_acceptable(f"only the following media types are accepted: {', '.join(ACCEPTED)}")
    error.details = None
    raise error


def streamed(form: Accepted) -> None:
    """Raise 406 for a form that a watch cannot have."""
    if form.media_type == JSON:
        return
    kinds = ", ".join(f"{one};stream=watch" for one in (JSON, PROTOBUF))
    error = errors.not_acceptable(f"only the following media types are accepted: {kinds}")
    error.details = None
    raise error


def for_people(query: str, user_agent: str) -> bool:
    """Whether JSON is indented: if the client says so, or is a browser or a tool of the command line."""
    if query:
        return query in {"1", "t", "T", "true", "TRUE", "True"}
    return user_agent.startswith(("curl", "Wget", "Mozilla/5.0"))


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


def takes_protobuf_only(accept: str) -> bool:
    """Whether a client takes nothing else: it is told in protobuf that there is none."""
    if PROTOBUF not in accept:
        return False
    return not any(_media_type(clause.type) for clause in _clauses(accept))
