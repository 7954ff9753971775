"""Shapes objects for the field manager: with and without managedFields, and as errors name them."""

from typing import Any

from kubeskew.apimachinery.errors import bad_request
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.apply.managedfields import entries
from kubeskew.apiserver.apply.managedfields.entries import EntryError, Managed


def given(live: Object, new: Object, subresource: str) -> Managed:
    """Returns the managers to start from: those a client sends, if it may and they make sense, else the live
    ones.
    """
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
    """Returns `obj` without managedFields."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or "managedFields" not in metadata:
        return obj
    return {**obj, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}


def managed(obj: Object, found: list[dict[str, Any]] | None) -> Object:
    """Returns `obj` with these managedFields, none if they are empty."""
    obj = unmanaged(obj)
    if not found:
        return obj
    return {**obj, "metadata": {**(obj.get("metadata") or {}), "managedFields": found}}


def check_kind(live: Object, config: Object, kind: str = "", api_version: str = "") -> None:
    """Raises 400 unless the config is of the kind and version that are wanted, which `live` has."""
    wanted = (api_version or live.get("apiVersion"), kind or live.get("kind"))
    if (config.get("apiVersion"), config.get("kind")) != wanted:
        raise bad_request(f"invalid object type: {gvk(config)}")


def metadata(obj: Object) -> Object:
    """Returns the metadata of an object that nobody has checked yet; empty if it is no map."""
    found = obj.get("metadata")
    return found if isinstance(found, dict) else {}


def who(obj: Object) -> str:
    """Returns namespace, name and kind as Go prints them; what is no text counts as none."""
    found = metadata(obj)
    namespace, name = (
        value if isinstance(value := found.get(key), str) else "" for key in ("namespace", "name")
    )
    return f"{namespace}/{name}; {gvk(obj)}"


def gvk(obj: Object) -> str:
    """Returns kind and version as Go prints them; empty if the version is none."""
    api_version, kind = obj.get("apiVersion"), obj.get("kind")
    api_version = api_version if isinstance(api_version, str) else ""
    if api_version.count("/") > 1:
        return "/, Kind="
    group, _, version = api_version.rpartition("/")
    return f"{group}/{version}, Kind={kind if isinstance(kind, str) else ''}"
