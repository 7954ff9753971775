"""Announcements of components as events of the log's time line."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.environment import DETAIL_MAX
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.storage.records import ComponentEvent

_FIELDS = ("component", "what", "version", "gates", "detail")
_COMPONENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,511}")  # a kind, a slash, the name of a node or driver
_WHAT = re.compile(r"[a-z][a-z-]{0,62}")
_VERSION = re.compile(r"[0-9A-Za-z.+-]{0,64}")
_GATES = re.compile(r"(?:[A-Za-z0-9]+=(?:true|false)(?:,|$))*")


def event_of(announcement: Any, now: datetime) -> ComponentEvent:
    """Reads an announcement; its place in the log is not known yet. Raises 400 for one that no component
    makes."""
    texts = isinstance(announcement, dict) and all(
        isinstance(announcement.get(name, ""), str) for name in _FIELDS
    )
    if not texts:
        raise errors.bad_request(f"the body must be an object of texts: {', '.join(_FIELDS)}")
    _check_fields(announcement)
    component, what, version, gates, detail = (announcement.get(name, "") for name in _FIELDS)
    return ComponentEvent(0, component, what, version, gates, now, detail)


def _check_fields(body: Mapping[str, Any]) -> None:
    """Raises 400 for a text that no component sends of itself: the log keeps it for ever."""
    if not _COMPONENT.fullmatch(body.get("component", "")):
        raise errors.bad_request(
            "component must be the name of a component, such as scheduler or kubelet/node-1"
        )
    if not _WHAT.fullmatch(body.get("what", "")):
        raise errors.bad_request("what must be a word, such as started or stopped")
    if len(detail := body.get("detail", "")) > DETAIL_MAX or not detail.isprintable():
        raise errors.bad_request(f"detail must be one line of at most {DETAIL_MAX} characters")
    version = body.get("version", "")
    try:
        if not _VERSION.fullmatch(version):
            raise ValueError("version must be that of a release")
        if version:
            Version.parse(version)
        if not _GATES.fullmatch(body.get("gates", "")):
            raise ValueError("gates must be as in the flag: A=true,B=false")
    except ValueError as error:
        raise errors.bad_request(str(error)) from None
