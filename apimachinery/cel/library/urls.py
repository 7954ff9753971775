"""URLs as Go's `url.ParseRequestURI` reads them.

Source: Go's net/url and k8s.io/apiserver/pkg/cel/library/urls.go.
"""

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote, unquote_plus

from kubeskew.apimachinery.cel.errors import EvaluationError

_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):")
_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})(.{0,2})", re.DOTALL)
_HOST = re.compile(r"[A-Za-z0-9\-._~!$&'()*+,;=:\[\]<>\"\x80-\U0010ffff%]*")
_PATH = "/:@!$&'()*+,;=-._~"


@dataclass(frozen=True, slots=True)
class URL:
    """The parts of a URL; `cel_type` is the type's name in expressions."""

    text: str
    scheme: str
    host: str
    escaped_path: str
    query: dict[str, list[str]]

    cel_type = "kubernetes.URL"

    @classmethod
    def parse(cls, text: str) -> "URL":
        """Raises EvaluationError with Go's reason behind upstream's words."""
        try:
            whole = cls._parse(text)  # a fragment is taken for a part of the path or query here
            return cls._parse(text.partition("#")[0]) if "#" in text else whole
        except ValueError as error:
            reason = f'parse "{text}": {error}'
            raise EvaluationError(f"URL parse error during conversion from string: {reason}") from None

    @classmethod
    def _parse(cls, text: str) -> "URL":
        if any(ord(char) < 0x20 or ord(char) == 0x7F for char in text):
            raise ValueError("net/url: invalid control character in URL")
        if text == "":
            raise ValueError("empty url")
        if text == "*":
            return cls(text, "", "", "*", {})
        scheme, rest = cls._scheme(text)
        rest, _, query = rest.partition("?")
        if not rest.startswith("/"):
            if scheme:
                return cls(text, scheme, "", "", _query(query))
            raise ValueError("invalid URI for request")
        host, path = "", rest
        if rest.startswith("//") and (scheme or not rest.startswith("///")):
            authority, slash, tail = rest[2:].partition("/")
            host, path = _host(authority.rpartition("@")[2]), slash + tail
        _check_escapes(path)
        return cls(text, scheme, host, quote(path, safe=_PATH + "%"), _query(query))

    @staticmethod
    def _scheme(text: str) -> tuple[str, str]:
        found = _SCHEME.match(text)
        if found:
            return found[1].lower(), text[found.end() :]
        if text.startswith(":"):
            raise ValueError("missing protocol scheme")
        return "", text

    @property
    def hostname(self) -> str:
        if self.host.startswith("["):
            return self.host[1:].partition("]")[0]
        return self.host.partition(":")[0]

    @property
    def port(self) -> str:
        return self.host.rpartition("]")[2].partition(":")[2]


def _host(text: str) -> str:
    if text.startswith("["):
        if "]" not in text:
            raise ValueError("missing ']' in host")
        port = text.rpartition("]")[2]
    else:
        port = text[text.rfind(":") :] if ":" in text else ""
    if port and not re.fullmatch(r":[0-9]*", port):
        raise ValueError(f'invalid port "{port}" after host')
    found = _HOST.match(text)
    if found is None or found.end() != len(text):
        place = found.end() if found else 0
        raise ValueError(f'invalid character "{text[place]}" in host name')
    _check_escapes(text)
    return unquote(text)


def _check_escapes(text: str) -> None:
    found = _ESCAPE.search(text)
    if found:
        raise ValueError(f'invalid URL escape "%{found[1]}"')


def _query(text: str) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for part in text.split("&"):
        if not part or ";" in part or _ESCAPE.search(part):
            continue
        key, _, value = part.partition("=")
        values.setdefault(unquote_plus(key), []).append(unquote_plus(value))
    return values
