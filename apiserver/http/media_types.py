"""Media types: negotiation, upstream's checks of a route, and objects reduced to their metadata.

Nothing is answered in protobuf or CBOR: a client that offers them among others gets JSON. Typed Go clients
send protobuf all the same, so it is read.

Custom resources are not routed by it.

Sources: k8s.io/apiserver/pkg/endpoints/handlers/negotiation/negotiate.go, 1.36;
github.com/emicklei/go-restful/v3 jsr311.go (detectRoute) and route.go, and
k8s.io/apiserver/pkg/endpoints/installer.go (its input), 1.36.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.memo import remembered
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.http.request import Request

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
# Kinds that objects can be converted to: group, version and kind.
_VERSIONS = ("v1", "v1beta1")
WITHOUT_TABLES = frozenset(
    ("meta.k8s.io", version, kind)
    for version in _VERSIONS
    for kind in ("PartialObjectMetadata", "PartialObjectMetadataList")
)
CONVERSIONS = WITHOUT_TABLES | {("meta.k8s.io", version, "Table") for version in _VERSIONS}
NO_CONVERSIONS: frozenset[tuple[str, str, str]] = frozenset()
# The fields of upstream's internal types, from which it takes the metadata.
_INTERNAL_FIELDS: Final[dict[tuple[str, str], frozenset[str]]] = {
    ("apps", "DaemonSet"): frozenset({"deprecated.daemonset.template.generation"}),
    ("apps", "Deployment"): frozenset({"deprecated.deployment.rollback.to"}),
    ("autoscaling", "HorizontalPodAutoscaler"): frozenset(
        f"autoscaling.alpha.kubernetes.io/{name}"
        for name in ("behavior", "conditions", "current-metrics", "metrics")
    ),
}
ANYTHING = ("*/*",)
_STREAMED = (*ACCEPTED, f"{JSON};stream=watch", f"{PROTOBUF};stream=watch")
_PATCHES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)
_CONNECTING = frozenset({"exec", "attach", "portforward", "proxy"})
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})


class Accepted(NamedTuple):
    """`convert` is empty, Table, PartialObjectMetadata or PartialObjectMetadataList."""

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
        """Types without wildcard come first, at any quality, as in goautoneg."""
        return (
            self.quality > other.quality
            or (self.type != "*" and other.type == "*")
            or (self.subtype != "*" and other.subtype == "*")
        )


def body_type(content_type: str, *, protobuf: bool = False) -> str:
    """JSON if there is no Content-Type. Raises 415 for a body that cannot be read.

        `protobuf` is whether it may be that: built-in kinds only, and only what clients send, never the
    answer.


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
    """Upstream's negotiation sends its 415 without details."""
    error = errors.unsupported_media_type(accepted)
    error.details = None
    return error


@remembered(256)
def accepted(accept: str, conversions: frozenset[tuple[str, str, str]] = CONVERSIONS) -> Accepted:
    """Raises 406 if no form fits."""
    found = negotiated(accept, conversions)
    if found is None:
        error = errors.not_acceptable(f"only the following media types are accepted: {', '.join(ACCEPTED)}")
        error.details = None
        raise error
    return found


def negotiated(accept: str, conversions: Collection[tuple[str, str, str]]) -> Accepted | None:
    """`conversions` are (group, version, kind); None if no form fits."""
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
    """Offers are subtypes of `application`, each with its Content-Type in the answer. Parameters of clauses
    are ignored; None if no clause takes an offer.
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
    """JSON is indented if the client asks for it, or is a browser or a tool of the command line."""
    if query:
        return query in {"1", "t", "T", "true", "TRUE", "True"}
    return user_agent.startswith(("curl", "Wget", "Mozilla/5.0"))


def _media_type(clause: _Clause) -> str | None:
    if (clause.type, clause.subtype) in {("*", "*"), ("application", "*"), ("application", "json")}:
        return JSON
    return YAML if (clause.type, clause.subtype) == ("application", "yaml") else None


def _clauses(accept: str) -> list[_Clause]:
    """The best clause comes first; clauses that cannot be read are left out."""
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
    """Clients that take nothing but protobuf get the 406 in protobuf."""
    if PROTOBUF not in accept:
        return False
    return not any(_media_type(clause) for clause in _clauses(accept))


def partial_metadata(obj: Object, version: str) -> Object:
    """`version` is that of meta.k8s.io."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": _metadata(obj),
    }


def _metadata(obj: Object) -> Object:
    metadata: Object = obj.get("metadata") or {}
    group, annotations = (obj.get("apiVersion") or "").partition("/")[0], metadata.get("annotations")
    fields = _INTERNAL_FIELDS.get((group, obj.get("kind") or ""))
    if not fields or not annotations:
        return metadata
    shown = {name: value for name, value in annotations.items() if name not in fields}
    if shown:
        return {**metadata, "annotations": shown}
    return {name: value for name, value in metadata.items() if name != "annotations"}


def check_resource_accepted(request: Request) -> None:
    """Checks a request about a built-in resource whose path and method are served; raises 406 and 415."""
    info = request.info
    if info.subresource in _CONNECTING:
        return
    produced: Sequence[str] = _STREAMED if info.verb in {"list", "watch"} else ACCEPTED
    if info.subresource == "log":
        produced = ("text/plain", *produced)
    check_accepted(request, produced, _PATCHES if info.verb == "patch" else ANYTHING)


def check_accepted(request: Request, produced: Sequence[str], consumed: Sequence[str] = ANYTHING) -> None:
    """Checks a request against the types that its route consumes and produces; raises 406 and 415."""
    sent = request.headers.get("content-type", "") or "application/octet-stream"
    length = request.headers.get("content-length", "")
    consumes = consumed == ANYTHING or not _named(sent).isdisjoint(consumed)
    if not consumes and length not in {"", "0"}:
        raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    wanted = _named(request.headers.get("accept", "") or "*/*")
    if consumes and not wanted.isdisjoint({*produced, "*/*"}):
        return
    available = f"\n\nAvailable representations: {', '.join(produced if consumes else ())}"
    if request.method in _WITH_BODY and not length:
        raise StatusError(415, "UnsupportedMediaType", f"415: Unsupported Media Type{available}", {})
    raise StatusError(406, "NotAcceptable", f"406: Not Acceptable{available}", {})


def _named(header: str) -> set[str]:
    """Takes media types to the letter, without parameters."""
    return {clause.partition(";")[0].strip() for clause in header.split(",")}
