"""Negotiates media types: the type of a request's body, and the one its answer shall have.

Source: k8s.io/apiserver/pkg/endpoints/handlers/negotiation/negotiate.go, 1.36. Nothing is answered
in protobuf or CBOR: a client that offers them among others gets JSON. Typed Go clients send protobuf all the
same, so it is read.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.memoizing import remembered

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
CBOR = "application/cbor"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

ACCEPTED = (JSON, YAML, PROTOBUF)
_WORD = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
# Of a Content-Type, as Go's mime.ParseMediaType takes them.
_PARAMETERS = re.compile(rf'(?:;\s*{_WORD}\s*=\s*(?:{_WORD}|"(?:[^"\\\r\n]|\\.)*")\s*)*+;?\s*')
# What objects can be answered as: group, version and kind.
_VERSIONS = ("v1", "v1beta1")
WITHOUT_TABLES = frozenset(
    ("meta.k8s.io", version, kind)
    for version in _VERSIONS
    for kind in ("PartialObjectMetadata", "PartialObjectMetadataList")
)
CONVERSIONS = WITHOUT_TABLES | {("meta.k8s.io", version, "Table") for version in _VERSIONS}
NO_CONVERSIONS: frozenset[tuple[str, str, str]] = frozenset()


class Accepted(NamedTuple):
    """Holds the form of an answer. `convert` is empty, Table, PartialObjectMetadata or
    PartialObjectMetadataList.
    """

    media_type: str
    convert: str = ""
    version: str = ""  # of what it is converted to
    pretty: bool = False


class _Clause(NamedTuple):
    type: str
    subtype: str
    params: dict[str, str]
    quality: float

    def precedes(self, other: "_Clause") -> bool:
        """Decides whether this clause comes before another, as in goautoneg: whatever its quality, a wildcard
        comes after what is none.
        """
        return (
            self.quality > other.quality
            or (self.type != "*" and other.type == "*")
            or (self.subtype != "*" and other.subtype == "*")
        )


def body_type(content_type: str, *, protobuf: bool = False) -> str:
    """Returns the media type of a body that can be read; JSON if it says nothing. Raises 415.

    `protobuf` is whether it may be that: built-in kinds only, and only what clients send, never the answer.
    """
    if not content_type:
        return JSON
    kind, semicolon, parameters = content_type.partition(";")
    kind = kind.strip().lower()
    readable = kind in {JSON, YAML} or (kind == PROTOBUF and protobuf)
    if not readable or _PARAMETERS.fullmatch(semicolon + parameters) is None:
        raise unsupported(ACCEPTED)
    return kind


def unsupported(accepted: Sequence[str]) -> errors.StatusError:
    """Makes the 415 of the negotiation: without details."""
    error = errors.unsupported_media_type(accepted)
    error.details = None
    return error


@remembered(256)
def accepted(accept: str, conversions: frozenset[tuple[str, str, str]] = CONVERSIONS) -> Accepted:
    """Returns the best form for an Accept header; raises 406."""
    found = negotiated(accept, conversions)
    if found is None:
        error = errors.not_acceptable(f"only the following media types are accepted: {', '.join(ACCEPTED)}")
        error.details = None
        raise error
    return found


def negotiated(accept: str, conversions: Collection[tuple[str, str, str]]) -> Accepted | None:
    """Returns the best form of what can be converted to `conversions` (group, version, kind), None if none
    fits.
    """
    for clause in _clauses(accept):
        media_type = _media_type(clause)
        if media_type is None:
            continue
        params = clause.params
        stream = params.get("stream")
        if stream and (stream != "watch" or media_type == YAML):
            continue
        if params.get("sv", "v1") != "v1":
            continue
        pretty = params.get("pretty") == "1" and media_type == JSON
        if not params.keys() & {"as", "g", "v"}:
            return Accepted(media_type, pretty=pretty)
        group, version, kind = (params.get(name, "") for name in ("g", "v", "as"))
        if (group, version, kind) in conversions:
            return Accepted(media_type, kind, version, pretty)
    return None


def first_of(accept: str, offers: Mapping[str, str]) -> str | None:
    """Returns the first offer that an Accept header takes, by its best clause, whatever the parameters;
    offers are subtypes of `application`, each with what it is called in the answer.
    """
    for clause in _clauses(accept):
        for subtype, content_type in offers.items():
            if clause.type in {"application", "*"} and clause.subtype in {subtype, "*"}:
                return content_type
    return None


def streamed(form: Accepted) -> None:
    """Raises 406 for a form that a watch cannot have."""
    if form.media_type == JSON:
        return
    kinds = ", ".join(f"{media_type};stream=watch" for media_type in (JSON, PROTOBUF))
    error = errors.not_acceptable(f"only the following media types are accepted: {kinds}")
    error.details = None
    raise error


def for_people(query: str, user_agent: str) -> bool:
    """Decides whether JSON is indented: if the client says so, or is a browser or a tool of the
    command line.
    """
    if query:
        return query in {"1", "t", "T", "true", "TRUE", "True"}
    return user_agent.startswith(("curl", "Wget", "Mozilla/5.0"))


def _media_type(clause: _Clause) -> str | None:
    if (clause.type, clause.subtype) in {("*", "*"), ("application", "*"), ("application", "json")}:
        return JSON
    return YAML if (clause.type, clause.subtype) == ("application", "yaml") else None


def _clauses(accept: str) -> list[_Clause]:
    """Returns the clauses of an Accept header that can be read, best first."""
    if not accept.strip():
        return [_Clause("*", "*", {}, 1.0)]
    ordered: list[_Clause] = []
    for part in accept.split(","):
        clause = _clause(part)
        if clause is not None:  # insertion sort: the order is not transitive, so that other sorts differ
            at = len(ordered)
            while at and clause.precedes(ordered[at - 1]):
                at -= 1
            ordered.insert(at, clause)
    return ordered


def _clause(part: str) -> _Clause | None:
    kind, *rest = part.split(";")
    names = [name.strip() for name in kind.split("/")]
    if names == ["*"]:
        names = ["*", "*"]
    if len(names) != 2 or not names[1]:
        return None
    pieces = [piece.split("=") for piece in rest]
    params = {piece[0].strip(): piece[1].strip() for piece in pieces if len(piece) == 2 and piece[1]}
    return _Clause(names[0], names[1], params, _quality(params.pop("q", "1")))


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def takes_protobuf_only(accept: str) -> bool:
    """Decides whether a client takes nothing but protobuf: it is told in protobuf that there is none."""
    if PROTOBUF not in accept:
        return False
    return not any(_media_type(clause) for clause in _clauses(accept))
