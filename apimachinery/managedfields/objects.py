"""Objects as the field manager handles them: with and without managedFields, and as errors name them."""

from typing import Any

from apimachinery.errors import bad_request
from apimachinery.managedfields import entries
from apimachinery.managedfields.entries import EntryError, Managed
from apimachinery.managedfields.updating import Object


def given(live: Object, new: Object, subresource: str) -> Managed:
    """The managers to start from: those a client sends, if it may and they make sense, else the live ones."""
    ours = (live.get("metadata") or {}).get("managedFields")
    theirs = (new.get("metadata") or {}).get("managedFields")
    if not subresource:
        if entries.is_reset(theirs):
            return Managed()
        try:
            sent = entries.decode(theirs)
        except EntryError:
            sent = Managed()
        if sent.managers:
            return sent
    try:
        return entries.decode(ours)
    except EntryError:
        return Managed()


def unmanaged(obj: Object) -> Object:
    """`obj` without managedFields."""
    metadata = obj.get("metadata")
    if not metadata or "managedFields" not in metadata:
        return obj
    return {**obj, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}


def managed(obj: Object, found: list[dict[str, Any]] | None) -> Object:
    """`obj` with these managedFields, none if they are empty."""
    obj = unmanaged(obj)
    if not found:
        return obj
    return {**obj, "metadata": {**(obj.get("metadata") or {}), "managedFields": found}}


def check_kind(live: Object, config: Object, kind: str) -> None:
    """Raise 400 unless the config is of the live object's kind and version."""
    wanted = (live.get("apiVersion"), kind or live.get("kind"))
    if (config.get("apiVersion"), config.get("kind")) != wanted:
        raise bad_request(f"invalid object type: {gvk(config)}")


def who(obj: Object) -> str:
    metadata = obj.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    return f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}; {gvk(obj)}"


def gvk(obj: Object) -> str:
    group, _, version = str(obj.get("apiVersion") or "").rpartition("/")
    return f"{group}/{version}, Kind={obj.get('kind') or ''}"
