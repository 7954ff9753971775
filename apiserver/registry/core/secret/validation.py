"""Validates the data of secrets of the known types. Source: core validation (ValidateSecret), 1.36."""

import base64
from collections.abc import Iterator

from kubeskew.apimachinery.field import FieldError, invalid, key, required
from kubeskew.apimachinery.golang import json_syntax
from kubeskew.apimachinery.objects import Object

_ACCOUNT = "kubernetes.io/service-account.name"
_REDACTED = "<secret contents redacted>"
_CONFIGS = {
    "kubernetes.io/dockercfg": ".dockercfg",
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
}


def type_errors(secret: Object, data: dict[str, str]) -> Iterator[FieldError]:
    kind = secret.get("type") or ""
    if kind == "kubernetes.io/service-account-token":
        if not (secret["metadata"].get("annotations") or {}).get(_ACCOUNT):
            yield required(key("metadata.annotations", _ACCOUNT))
    elif kind in _CONFIGS:
        yield from _json_errors(_CONFIGS[kind], data)
    elif kind == "kubernetes.io/basic-auth":
        if not {"username", "password"} & data.keys():
            yield from (required(key("data", name)) for name in ("username", "password"))
    elif kind == "kubernetes.io/ssh-auth":
        if not data.get("ssh-privatekey"):
            yield required(key("data", "ssh-privatekey"))
    elif kind == "kubernetes.io/tls":
        yield from (required(key("data", name)) for name in ("tls.crt", "tls.key") if name not in data)


def _json_errors(name: str, data: dict[str, str]) -> Iterator[FieldError]:
    if name not in data:
        yield required(key("data", name))
        return
    content = base64.b64decode(data[name] or "")
    try:
        json_syntax.check(content)
    except json_syntax.JSONSyntaxError as error:
        yield invalid(key("data", name), _REDACTED, str(error))
        return
    if not content.lstrip().startswith((b"{", b"null")):
        kind = _go_kind(content.lstrip())
        text = f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
        yield invalid(key("data", name), _REDACTED, text)


def _go_kind(content: bytes) -> str:
    kinds = {b"[": "array", b'"': "string", b"t": "bool", b"f": "bool"}
    return kinds.get(content[:1], "number")
