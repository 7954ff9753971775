"""Controller revisions: the former templates of stateful sets and daemon sets, for rollbacks; and the hashes
that name replica sets and revisions, over the text of a pod template as Go prints it.

Upstream hashes the text of the struct by go-spew with `%#v`: names and types of all fields, even of unset
ones, so that the text depends on the release. Here it is that of 1.20 in every release, with younger fields
after the others if they are set: thus names are those in recordings, and no upgrade changes them.

The hash of a pod template is FNV-1a, 32 bits, of this text.

Sources: k8s.io/kubernetes pkg/util/hash/hash.go, 1.20; the structs by hack/catalogue/pod_template_structs.py;
k8s.io/kubernetes/pkg/controller/history and of the two controllers' use of it, 1.36.
"""

import functools
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.client.refs import CONTROLLER_REVISIONS, Ref
from kubeskew.apimachinery.client.rest import MERGE_PATCH, STRATEGIC_PATCH, APIClient
from kubeskew.apimachinery.clock import SUFFIX_ALPHABET
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.golang.fnv import fnv1, fnv1a
from kubeskew.apimachinery.golang.raw_extensions import RawObject, marshalled
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Format, Quantity
from kubeskew.controllers.framework.owner_references import (
    ControllerRefManager,
    Dependents,
    OwnerMatch,
    new_controller_reference,
)

_FILE = Path(__file__).parent / "pod_template_structs.json"
_NO_TIME = "{Time:(time.Time){wall:(uint64)0 ext:(int64)0 loc:(*time.Location)<nil>}}"
_DIGITS = re.compile(r"[+-]?(\d+)(?:\.(\d+))?")
_NIL = "<nil>"
HASH_LABEL = "controller.kubernetes.io/hash"
REVISION_LABEL = "controller-revision-hash"  # of pods; of daemon sets' revisions too
_PREFIX_LIMIT = 223


class _Field(NamedTuple):
    name: str
    known: str  # its name in JSON; empty if its fields stand in the object itself
    kind: str


class TemplateLayout:
    """Prints pod templates as Go prints the struct of one release.

    `types` are as pod_template_structs.json has them: fields by the name of a struct, and of any other type
    that has a name, what it is made of.
    """

    def __init__(self, types: Mapping[str, list[list[str]] | str]) -> None:
        self._structs = {
            name: [_Field(*field) for field in fields]
            for name, fields in types.items()
            if isinstance(fields, list)
        }
        self._shapes = {name: shape for name, shape in types.items() if isinstance(shape, str)}

    def text(self, template: Object) -> str:
        return self._typed("v1.PodTemplateSpec", template)

    def _typed(self, kind: str, value: Any) -> str:
        if kind.startswith("*"):
            return f"({kind}){_NIL if value is None else self._bare(kind[1:], value)}"
        return f"({kind}){self._bare(kind, value)}"

    def _bare(self, kind: str, value: Any) -> str:
        """Pointers and lists hold values without their type."""
        if kind in self._structs:
            return f"{{{' '.join(self._fields(self._structs[kind], value or {}))}}}"
        if kind in _PARTICULAR:
            return _PARTICULAR[kind](value)
        shape = self._shapes.get(kind, kind)
        if shape.startswith("[]"):
            return f"[{' '.join(self._bare(shape[2:], item) for item in value)}]" if value else _NIL
        if shape.startswith("map["):
            item = shape.partition("]")[2]
            entries = (f"{key}:{self._bare(item, value[key])}" for key in sorted(value or ()))
            return f"map[{' '.join(entries)}]" if value else _NIL
        if shape == "bool":
            return "true" if value else "false"
        return str(value or (0 if shape.startswith("int") else ""))

    def _fields(self, fields: list[_Field], value: Object) -> Iterator[str]:
        for name, known, kind in fields:
            yield f"{name}:{self._typed(kind, value.get(known) if known else self._own(kind, value))}"
        younger = {name: field for name, field in value.items() if field is not None} if value else {}
        for name in sorted(younger.keys() - self._names(fields)):
            yield f"{name}:{orjson.dumps(younger[name], option=orjson.OPT_SORT_KEYS).decode()}"

    def _own(self, kind: str, value: Object) -> Object:
        names = self._names(self._structs[kind])
        return {name: field for name, field in value.items() if name in names}

    def _names(self, fields: list[_Field]) -> set[str]:
        embedded = (self._names(self._structs[field.kind]) for field in fields if not field.known)
        return {field.known for field in fields if field.known}.union(*embedded)


@functools.cache
def shared_layout() -> TemplateLayout:
    """The layout of all releases."""
    return TemplateLayout(orjson.loads(_FILE.read_bytes()))


def _integer_or_text(value: Any) -> str:
    text = isinstance(value, str)
    number, written = (0, value) if text else (value or 0, "")
    return f"{{Type:(intstr.Type){int(text)} IntVal:(int32){number} StrVal:(string){written}}}"


def _quantity(value: Any) -> str:
    written = str(value or 0)
    quantity = Quantity.parse(written)
    number, scale, exact, kept = quantity.unscaled, quantity.exponent, _NIL, ""
    if quantity.wide:
        exact, number, scale = _decimal(number, -scale), 0, 0
    elif _is_kept(written, quantity):
        kept = written
    return (
        f"{{i:(resource.int64Amount){{value:(int64){number} scale:(resource.Scale){scale}}}"
        f" d:(resource.infDecAmount){{Dec:(*inf.Dec){exact}}}"
        f" s:(string){kept} Format:(resource.Format){quantity.format}}}"
    )


def _decimal(number: int, places: int) -> str:
    """Numbers beyond 64 bits are printed as 64-bit words, the lowest first."""
    words = [str(abs(number) >> at & 2**64 - 1) for at in range(0, number.bit_length(), 64)]
    unscaled = f"{{neg:(bool){'true' if number < 0 else 'false'} abs:(big.nat)[{' '.join(words)}]}}"
    return f"{{unscaled:(big.Int){unscaled} scale:(inf.Scale){places}}}"


def _is_kept(written: str, quantity: Quantity) -> bool:
    """Go's quantity keeps canonical texts as they were read (ParseQuantity)."""
    found = _DIGITS.match(written)
    digits = "".join(found.groups("")) if found else ""
    if quantity.format is Format.BINARY_SI:
        return int(digits) & 7 != 0
    canonical = quantity.exponent % 3 == 0 and not digits.endswith("000") and not digits.startswith("0")
    return written == "0" or canonical


_PARTICULAR: dict[str, Callable[[Any], str]] = {
    "v1.Time": lambda _: _NO_TIME,  # a template has no creation time
    "intstr.IntOrString": _integer_or_text,
    "resource.Quantity": _quantity,
}


def safe_encode(text: str) -> str:
    """Maps each character to one that forms no words (apimachinery util/rand.SafeEncodeString)."""
    return "".join(SUFFIX_ALPHABET[ord(character) % len(SUFFIX_ALPHABET)] for character in text)


def template_hash(template: Object, collisions: int | None, layout: TemplateLayout | None = None) -> str:
    """Imported releases have a layout of their own."""
    data = (layout or shared_layout()).text(template).encode()
    if collisions is not None:
        data += collisions.to_bytes(8, "little")
    return safe_encode(str(fnv1a(data)))


def patch_of(owner: Object, *, writes_empty_times: bool) -> RawObject:
    """A revision's data is a strategic merge patch that puts the present template back, as Go writes it.

    Up to 1.33 Go's encoder wrote the time that a template never has, as null (pull request 130989).
    """
    template = dict(owner["spec"].get("template") or {})
    if writes_empty_times:
        template["metadata"] = {"creationTimestamp": None, **(template.get("metadata") or {})}
    return marshalled({"spec": {"template": {**template, "$patch": "replace"}}})


def applied(owner: Object, revision: Object) -> Object:
    template = dict(((revision.get("data") or {}).get("spec") or {}).get("template") or {})
    template.pop("$patch", None)
    return {**owner, "spec": {**owner["spec"], "template": template}}


def same_data(one: Object | None, other: Object | None, *, by_bytes: bool = False) -> bool:
    """Unless `by_bytes`, the empty creation time that templates had up to 1.33 does not count."""
    return one == other if by_bytes else _timeless(one) == _timeless(other)


def _timeless(data: Object | None) -> Object:
    template = dict(((data or {}).get("spec") or {}).get("template") or {})
    metadata = template.get("metadata") or {}
    return {**template, "metadata": {name: value for name, value in metadata.items() if value is not None}}


def data_hash(data: RawObject, collisions: int) -> str:
    """Names of stateful sets' revisions end with FNV-1 of the data's bytes and the number of collisions."""
    return safe_encode(str(fnv1(data.text + str(collisions).encode())))


def name_of(owner: Object, text: str) -> str:
    return f"{owner['metadata']['name'][:_PREFIX_LIMIT]}-{text}"


def new_revision(owner: Object, ref: Ref, number: int, data: Object, text: str, hash_label: str) -> Object:
    """`data` is the owner's present template; the revision is not created yet."""
    metadata = owner["metadata"]
    labels = ((owner["spec"].get("template") or {}).get("metadata") or {}).get("labels") or {}
    revision: Object = {
        "apiVersion": CONTROLLER_REVISIONS.api_version,
        "kind": CONTROLLER_REVISIONS.kind,
        "metadata": {
            "name": name_of(owner, text),
            "namespace": metadata["namespace"],
            "labels": {**labels, hash_label: text},
            "ownerReferences": [new_controller_reference(owner, ref)],
        },
        "data": data,
        "revision": number,
    }
    if metadata.get("annotations"):
        revision["metadata"]["annotations"] = dict(metadata["annotations"])
    return revision


def ordered(revisions: Collection[Object]) -> list[Object]:
    """Oldest first: by number, age, name."""
    return sorted(
        revisions,
        key=lambda one: (
            one.get("revision") or 0,
            one["metadata"].get("creationTimestamp") or "",
            one["metadata"]["name"],
        ),
    )


def next_number(revisions: Sequence[Object]) -> int:
    return max((revision.get("revision") or 0 for revision in revisions), default=0) + 1


def unused(revisions: Sequence[Object], live: Collection[str]) -> list[Object]:
    """`live` are names or hashes of revisions in use; the oldest unused one comes first."""
    return [revision for revision in ordered(revisions) if not live_names(revision) & set(live)]


def live_names(revision: Object) -> set[str]:
    labels = revision["metadata"].get("labels") or {}
    found = {revision["metadata"]["name"], labels.get(REVISION_LABEL) or ""}
    return found - {""}


class Revisions:
    def __init__(
        self,
        client: APIClient,
        informer: Informer,
        ref: Ref,
        match: OwnerMatch = OwnerMatch.UID_IN_NAMESPACE,
        *,
        releases: bool = True,
    ) -> None:
        """Revisions whose labels no longer match are given up if `releases`, and otherwise left alone."""
        self._client = client
        self._dependents = Dependents(informer, ref.kind, match)
        self._ref = ref
        self._releases = releases

    async def of(self, owner: Object, matches: Callable[[Object], bool]) -> list[Object]:
        """Matching orphans are adopted; the oldest revision comes first."""
        metadata = owner["metadata"]
        ref_manager = ControllerRefManager(
            self._client,
            owner,
            self._ref,
            CONTROLLER_REVISIONS,
            matches,
            lambda: self._client.get(self._ref, metadata["name"], metadata["namespace"]),
        )
        found = self._dependents.candidates(owner)
        if not self._releases:
            found = [revision for revision in found if matches(revision)]
        return ordered(await ref_manager.claim(found))

    async def create(self, revision: Object) -> Object | None:
        """A different revision of the name gives None; an equal one that the informer missed is used."""
        try:
            return await self._client.create(CONTROLLER_REVISIONS, revision)
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise
        metadata = revision["metadata"]
        found = await self._client.get(CONTROLLER_REVISIONS, metadata["name"], metadata["namespace"])
        return found if found.get("data") == revision["data"] else None

    async def renumber(self, revision: Object, number: int) -> Object:
        if revision.get("revision") == number:
            return revision
        metadata = revision["metadata"]
        return await self._client.patch(
            CONTROLLER_REVISIONS, metadata["name"], metadata["namespace"], {"revision": number}, MERGE_PATCH
        )

    async def label(self, revision: Object, name: str, value: str) -> Object:
        metadata, patch = revision["metadata"], {"metadata": {"labels": {name: value}}}
        return await self._client.patch(
            CONTROLLER_REVISIONS, metadata["name"], metadata["namespace"], patch, STRATEGIC_PATCH
        )

    async def delete(self, revisions: Sequence[Object]) -> None:
        for revision in revisions:
            try:
                await self._client.delete(
                    CONTROLLER_REVISIONS, revision["metadata"]["name"], revision["metadata"]["namespace"]
                )
            except StatusError as error:
                if error.code != 404:
                    raise
