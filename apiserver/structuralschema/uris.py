"""Decides whether Go's url.ParseRequestURI accepts a text."""

import re

_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")
_HOST = re.compile(r"(?:\[[^\]]*\]|[^\s:\[\]<>\"%^`{|}\\/]|%[0-9a-fA-F]{2})*(?::[0-9]*)?")
_USER = re.compile(r"(?:[A-Za-z0-9\-._:~!$&'()*+,;=%@])*")


def is_request_uri(text: str) -> bool:
    """Decides whether the text is an absolute URI or an absolute path."""
    if not text or _CONTROL.search(text) or text.startswith(":"):
        return False
    if text == "*":
        return True
    scheme = _SCHEME.match(text)
    rest = text[scheme.end() :] if scheme else text
    rest = rest.partition("?")[0]
    if not rest.startswith("/"):
        return scheme is not None
    if scheme and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        return _is_authority(authority) and not _BAD_ESCAPE.search(slash + path)
    return not _BAD_ESCAPE.search(rest)


def _is_authority(text: str) -> bool:
    user, at, host = text.rpartition("@")
    if at and (not _USER.fullmatch(user) or _BAD_ESCAPE.search(user)):
        return False
    return _HOST.fullmatch(host) is not None
