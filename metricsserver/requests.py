"""Reads a request for the API of the metrics server: what is asked for, which of them, and in which shape."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.selectors.label_requirements import SelectorError
from kubeskew.apimachinery.selectors.labels import LabelSelector
from kubeskew.metricsserver.objects import GROUP, KINDS, VERSION, Kind

_JSON = frozenset({"application/json", "application/*", "*/*"})
_VERSIONS = ("v1", "v1beta1")
_PREFIX = f"/apis/{GROUP}/{VERSION}"


class Asked(NamedTuple):
    """A resource of the API: all of a namespace (empty: of all), or the one of a name."""

    kind: Kind
    namespace: str
    name: str

    def attributes(self) -> dict[str, str]:
        """Returns them as a SubjectAccessReview has them."""
        found = {"group": GROUP, "version": VERSION, "resource": self.kind.plural}
        return found | {key: value for key in ("namespace", "name") if (value := getattr(self, key))}


class Shape(NamedTuple):
    """The shape of an answer: `Table`, `PartialObjectMetadata` or empty, and the version of meta.k8s.io."""

    kind: str = ""
    version: str = ""


def asked_for(path: str) -> Asked | None:
    """Returns what a path stands for; None if it is no resource."""
    if not path.startswith(f"{_PREFIX}/"):
        return None
    parts = path.removeprefix(f"{_PREFIX}/").split("/")
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2:
        namespace, parts = parts[1], parts[2:]
    kind = KINDS.get(parts[0])
    if kind is None or len(parts) > 2 or not all(parts) or (namespace and not kind.namespaced):
        return None
    name = parts[1] if len(parts) > 1 else ""
    return None if name and kind.namespaced and not namespace else Asked(kind, namespace, name)


def shape_of(accept: str) -> Shape:
    """Returns the first shape that a client takes of those that there are. Raises StatusError."""
    for clause in accept.split(",") if accept.strip() else ("*/*",):
        media_type, *rest = (part.strip() for part in clause.split(";"))
        parameters = dict(part.partition("=")[::2] for part in rest)
        if media_type not in _JSON:
            continue
        kind = parameters.get("as", "").removesuffix("List")
        if not kind:
            return Shape()
        known = parameters.get("g") == "meta.k8s.io" and parameters.get("v") in _VERSIONS
        if known and kind in {"Table", "PartialObjectMetadata"}:
            return Shape(kind, parameters["v"])
    raise errors.not_acceptable("only the following media types are accepted: application/json")


def chosen_by(query: Mapping[str, str]) -> Callable[[Object], bool]:
    """Returns what decides whether an object is in a list. Raises StatusError."""
    try:
        labels = LabelSelector.parse(query.get("labelSelector", ""))
    except SelectorError as error:
        raise errors.bad_request(str(error)) from None
    fields = _fields(query.get("fieldSelector", ""))

    def chosen(obj: Object) -> bool:
        metadata = obj["metadata"]
        values = (metadata.get(key.removeprefix("metadata."), "") == value for key, value, _ in fields)
        same = all(found == wanted for found, (_, _, wanted) in zip(values, fields, strict=True))
        return same and labels.matches(metadata.get("labels"))

    return chosen


def _fields(text: str) -> list[tuple[str, str, bool]]:
    """Returns the terms of a field selector: field, value, whether it has to be that. Raises StatusError."""
    terms = []
    for term in filter(None, text.split(",")):
        for sign in ("!=", "==", "="):
            field, found, value = term.partition(sign)
            if found:
                break
        else:
            raise errors.bad_request(f"invalid field selector: '{text}'; can't understand '{term}'")
        if field not in {"metadata.name", "metadata.namespace"}:
            known = 'only "metadata.name", "metadata.namespace"'
            raise errors.bad_request(f'"{field}" is not a known field selector: {known}')
        terms.append((field, value, sign != "!="))
    return terms
