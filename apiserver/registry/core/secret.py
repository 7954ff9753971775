"""Secret: defaults, validation of the data of known types, strategy and cells of tables.

Faults of certificates and keys are in the words of Go's crypto/tls (X509KeyPair).

Sources: pkg/apis/core/v1/defaults.go and conversion.go (Convert_v1_Secret_To_core_Secret), core validation
(ValidateSecret), pkg/registry/core/secret/strategy.go, 1.36.
"""

import base64
from collections.abc import Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, invalid, key, required, too_long
from kubeskew.apimachinery.golang import json_syntax
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.security.tls import blocks
from kubeskew.apiserver.registry.core.configmap import MAX_DATA_BYTES, data_size, immutable_errors
from kubeskew.apiserver.registry.defaulting import DefaultingContext, fill
from kubeskew.apiserver.registry.generic.builtin import BuiltIn
from kubeskew.apiserver.registry.generic.strategy import Check, StrategyContext, keep
from kubeskew.apiserver.registry.tables.cells import Cells, Subject

_ACCOUNT = "kubernetes.io/service-account.name"
_REDACTED = "<secret contents redacted>"
_CONFIGS = {
    "kubernetes.io/dockercfg": ".dockercfg",
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
}
_SKIPPED = "in {} input after skipping PEM blocks of the following types: [{}]"


def default_secret(obj: Object, _: DefaultingContext) -> None:
    """`stringData` becomes what it stands for, as in the conversion that follows."""
    fill(obj, type="Opaque")
    texts = obj.pop("stringData", None)
    if texts:
        data = obj["data"] = dict(obj.get("data") or {})
        data.update({name: base64.b64encode(text.encode()).decode() for name, text in texts.items()})


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


def key_pair_problem(certificate: str, key: str) -> str:
    """Both are base64 of PEM; an empty text means that they fit."""
    found = list(blocks(_text(certificate)))
    certificates = [block for block in found if block.kind == "CERTIFICATE"]
    if not certificates:
        return _no_certificate([block.kind for block in found])
    keys = list(blocks(_text(key)))
    private = next((block for block in keys if block.kind.endswith("PRIVATE KEY")), None)
    if private is None:
        return _no_key([block.kind for block in keys])
    return _mismatch(certificates[0].content, private.content)


def _text(encoded: str) -> str:
    return base64.b64decode(encoded).decode(errors="replace")


def _no_certificate(kinds: list[str]) -> str:
    if not kinds:
        return "tls: failed to find any PEM data in certificate input"
    if len(kinds) == 1 and kinds[0].endswith("PRIVATE KEY"):
        return (
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; "
            "PEM inputs may have been switched"
        )
    return f'tls: failed to find "CERTIFICATE" PEM block {_SKIPPED.format("certificate", " ".join(kinds))}'


def _no_key(kinds: list[str]) -> str:
    if not kinds:
        return "tls: failed to find any PEM data in key input"
    if kinds == ["CERTIFICATE"]:
        return "tls: found a certificate rather than a key in the PEM for the private key"
    skipped = _SKIPPED.format("key", " ".join(kinds))
    return f'tls: failed to find PEM block with type ending in "PRIVATE KEY" {skipped}'


def _mismatch(certificate: bytes, key: bytes) -> str:
    from cryptography import x509  # slow to import, rarely needed
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_der_private_key

    try:
        public = x509.load_der_x509_certificate(certificate).public_key()
    except (ValueError, UnsupportedAlgorithm):
        return "x509: malformed certificate"
    try:
        own = load_der_private_key(key, None, unsafe_skip_rsa_key_validation=True).public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return "tls: failed to parse private key"
    if type(own) is not type(public):
        return "tls: private key type does not match public key type"
    return "" if own == public else "tls: private key does not match public key"


class SecretStrategy(BuiltIn):
    field_labels = ("type",)
    update_checks = (
        Check.METADATA,
        Check.METADATA_CHANGE,
        Check.STRUCTURE,
        Check.CHANGE,
        Check.OWN_RULES,
    )

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        if not new.get("type"):
            keep(new, old, "type")

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        errors: list[FieldError] = []
        data = obj.get("data") or {}
        for name in sorted(data):
            errors += [invalid(key("data", name), name, text) for text in names.config_key(name)]
        if data_size(obj, "data") > MAX_DATA_BYTES:
            errors.append(too_long("data", MAX_DATA_BYTES))
        return [*errors, *type_errors(obj, data)]

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        if obj.get("type") != "kubernetes.io/tls":
            return []
        data = obj.get("data") or {}
        problem = key_pair_problem(data.get("tls.crt") or "", data.get("tls.key") or "")
        return [problem] if problem else []

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        errors = []
        if new.get("type") != old.get("type"):
            errors.append(invalid("type", new.get("type") or "", "field is immutable"))
        return [*errors, *immutable_errors(new, old, "data")]


def secret_cells(subject: Subject) -> Cells:
    return {"Type": subject.text("type"), "Data": subject.count("data")}
