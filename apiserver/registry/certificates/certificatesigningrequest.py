"""CertificateSigningRequest: validation, strategy and cells of tables.

Sources: k8s.io/kubernetes/pkg/apis/certificates/validation/validation.go and
pkg/registry/certificates/certificates/strategy.go, 1.36.
"""

import base64
import copy
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import ClassVar

from kubeskew.apimachinery import field
from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.security.tls import blocks
from kubeskew.apiserver.internal_types import InternalTypes
from kubeskew.apiserver.registry.generic.builtin import BuiltIn, HandwrittenValidation, SpecKeptStatus
from kubeskew.apiserver.registry.generic.strategy import Check, Strategy, StrategyContext
from kubeskew.apiserver.registry.shared.repeats import repeats
from kubeskew.apiserver.registry.shared.signers import signer_errors
from kubeskew.apiserver.registry.tables.cells import NONE, Cells, Subject, human_duration

LEGACY = "kubernetes.io/legacy-unknown"
DECIDED = ("Approved", "Denied")
_FINAL = (*DECIDED, "Failed")
_USAGES = (
    "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment",
    "decipher only", "digital signature", "email protection", "encipher only", "ipsec end system",
    "ipsec tunnel", "ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc",
    "ocsp signing", "s/mime", "server auth", "signing", "timestamping",
)  # fmt: skip
_LEAST_SECONDS = 600
_CONDITIONS = "status.conditions"
_CONDITION = "certificates.CertificateSigningRequestCondition"


def signing_request(obj: Object, old: Object | None = None) -> list[FieldError]:
    """Errors that `old` had already may stay."""
    return [*_spec(obj, old), *_conditions(obj, old), *_certificate(obj, old)]


def _spec(obj: Object, old: Object | None) -> Iterator[FieldError]:
    from kubeskew.apimachinery.security.certificate_requests import (  # cryptography is slow
        RequestError,
        parse_request,
    )

    spec, before = obj.get("spec") or {}, ((old or {}).get("spec") or {})
    try:
        parse_request(spec.get("request") or "")
    except RequestError as error:
        yield field.invalid("spec.request", spec.get("request"), str(error))
    usages = spec.get("usages") or []
    if not usages:
        yield field.required("spec.usages")
    earlier = before.get("usages") or []
    were_known = all(usage in _USAGES for usage in earlier)
    for position, usage in enumerate(usages):
        if usage not in _USAGES and were_known:
            yield field.not_supported(f"spec.usages[{position}]", usage, _USAGES)
    for position in sorted(repeats(usages)) if not repeats(earlier) else ():
        yield field.duplicate(f"spec.usages[{position}]", usages[position])
    signer, seconds = spec.get("signerName") or "", spec.get("expirationSeconds")
    if signer == LEGACY and before.get("signerName") != LEGACY:
        why = "the legacy signerName is not allowed via this API version"
        yield field.invalid("spec.signerName", signer, why)
    else:
        yield from signer_errors(signer, "spec.signerName")
    if seconds is not None and seconds < _LEAST_SECONDS:
        why = "may not specify a duration less than 600 seconds (10 minutes)"
        yield field.invalid("spec.expirationSeconds", seconds, why)


def _conditions(obj: Object, old: Object | None) -> Iterator[FieldError]:
    seen: list[str] = []
    earlier = [condition.get("type") or "" for condition in _of(old or {})]
    for position, condition in enumerate(_of(obj)):
        path, status = f"{_CONDITIONS}[{position}]", condition.get("status")
        kind = condition.get("type") or ""
        if not kind and "" not in earlier:
            yield field.required(f"{path}.type")
        allowed = ("True",) if kind in _FINAL else ("False", "True", "Unknown")
        if not status:
            yield field.required(f"{path}.status")
        elif status not in allowed:
            yield field.not_supported(f"{path}.status", status, allowed)
        other = {"Approved": "Denied", "Denied": "Approved"}.get(kind)
        if other in seen and not set(DECIDED) <= set(earlier):
            why = "Approved and Denied conditions are mutually exclusive"
            yield field.invalid(f"{path}.type", kind, why)
        if kind in seen and len(set(earlier)) == len(earlier):
            yield field.duplicate(f"{path}.type", kind)
        seen.append(kind)


def _certificate(obj: Object, old: Object | None) -> Iterator[FieldError]:
    new, before = _content(obj), _content(old or {})
    if old is not None and (new == before or _certificate_problem(before)):
        return
    if why := _certificate_problem(new):
        yield field.invalid("status.certificate", "<certificate data>", why)


def _certificate_problem(text: str) -> str:
    """Certificates are base64 of PEM; an empty text means that they are fine."""
    if not text:
        return ""
    from cryptography import x509

    found = list(blocks(base64.b64decode(text).decode(errors="replace")))
    for block in found:
        if block.kind != "CERTIFICATE":
            return f'only CERTIFICATE PEM blocks are allowed, found "{block.kind}"'
        if block.headers:
            return "no PEM block headers are permitted"
        try:
            x509.load_der_x509_certificate(block.content)
        except ValueError:
            return "x509: malformed certificate"
    return "" if found else "must contain at least one CERTIFICATE PEM block"


def signing_request_update(
    new: Object, old: Object, types: InternalTypes, *, decides: bool = False, signs: bool = False
) -> list[FieldError]:
    """Only `approval` decides, only `status` signs."""
    found = signing_request(new, old)
    for kind in _FINAL:
        if len(_of(new, kind)) < len(_of(old, kind)):
            why = f'updates may not remove a condition of type "{kind}"'
            found.append(field.forbidden(_CONDITIONS, why))
    if not decides:
        found += _decisions(new, old, types)
    if _content(new) != _content(old):
        if not signs:
            found.append(field.forbidden("status.certificate", "updates may not set certificate content"))
        elif _content(old):
            why = "updates may not modify existing certificate content"
            found.append(field.forbidden("status.certificate", why))
    return found


def _decisions(new: Object, old: Object, types: InternalTypes) -> Iterator[FieldError]:
    for kind in DECIDED:
        after, before = _of(new, kind), _of(old, kind)
        if len(after) > len(before):
            yield field.forbidden(_CONDITIONS, f'updates may not add a condition of type "{kind}"')
        elif len(after) == len(before) and after != before:
            difference = types.difference(f"[{_CONDITION}", before, after)
            why = f'updates may not modify a condition of type "{kind}"\n{difference}'
            yield field.forbidden(_CONDITIONS, why)


def _of(obj: Object, kind: str | None = None) -> list[Object]:
    conditions = (obj.get("status") or {}).get("conditions") or []
    return [condition for condition in conditions if kind is None or condition.get("type") == kind]


def _content(obj: Object) -> str:
    return str((obj.get("status") or {}).get("certificate") or "")


class _Signing(HandwrittenValidation):
    """Requests may have any name."""

    update_checks = (Check.CHANGE, Check.METADATA, Check.METADATA_CHANGE)

    def name_check(self, name: str, prefix: bool) -> list[str]:
        return []


class SigningStatus(_Signing, SpecKeptStatus):
    """Signers write certificate and conditions; a decision stays as it was."""

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        new["spec"] = copy.deepcopy(old.get("spec") or {})
        for kind in DECIDED:
            _preserve(new, old, kind)
        _complete_times(new, old, ctx)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return signing_request_update(new, old, ctx.features.internal, signs=True)


class SigningApproval(_Signing, SpecKeptStatus):
    """Approvers write conditions, and nothing else."""

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        _complete_times(new, old, ctx)
        status = copy.deepcopy(old.get("status") or {})
        status.pop("conditions", None)
        if conditions := (new.get("status") or {}).get("conditions"):
            status["conditions"] = conditions
        new["spec"], new["status"] = copy.deepcopy(old.get("spec") or {}), status

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return signing_request_update(new, old, ctx.features.internal, decides=True)

    def reset_fields(self, ctx: StrategyContext) -> tuple[tuple[str, ...], ...]:
        return (("spec",), ("status", "certificate"))


class SigningRequestStrategy(_Signing, BuiltIn):
    """The requesting user is written into a new request."""

    status = SigningStatus
    subresources: ClassVar[Mapping[str, type[Strategy]]] = {"approval": SigningApproval}
    field_labels = ("spec.signerName",)

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        super().prepare_for_create(obj, ctx)
        spec = obj.setdefault("spec", {})
        for name in ("username", "uid", "groups", "extra"):
            spec.pop(name, None)
        spec["username"] = ctx.user.name
        if ctx.user.uid:
            spec["uid"] = ctx.user.uid
        if ctx.user.groups:
            spec["groups"] = list(ctx.user.groups)
        if ctx.user.extra:
            spec["extra"] = {name: list(values) for name, values in ctx.user.extra.items()}

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return signing_request(obj)

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        new["spec"], new["status"] = old.get("spec") or {}, old.get("status") or {}

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return signing_request_update(new, old, ctx.features.internal)

    def reset_fields(self, ctx: StrategyContext) -> tuple[tuple[str, ...], ...]:
        return (("spec",), ("status",))


def _conditions_of(obj: Object) -> list[Object]:
    return (obj.get("status") or {}).get("conditions") or []


def _preserve(new: Object, old: Object, kind: str) -> None:
    """Conditions of a kind are restored if there are as many as before."""
    before = [condition for condition in _conditions_of(old) if condition.get("type") == kind]
    after = [
        position for position, condition in enumerate(_conditions_of(new)) if condition.get("type") == kind
    ]
    if len(before) == len(after):
        for position, condition in zip(after, before, strict=True):
            new["status"]["conditions"][position] = copy.deepcopy(condition)


def _complete_times(new: Object, old: Object, ctx: StrategyContext) -> None:
    """Missing times are set; a condition that was there keeps its transition time."""
    now = timestamp(ctx.now)
    known = {
        (condition.get("type"), condition.get("status")): condition["lastTransitionTime"]
        for condition in _conditions_of(old)
        if condition.get("lastTransitionTime")
    }
    for condition in _conditions_of(new):
        if not condition.get("lastUpdateTime"):
            condition["lastUpdateTime"] = now
        if not condition.get("lastTransitionTime"):
            key = condition.get("type"), condition.get("status")
            condition["lastTransitionTime"] = known.get(key, now)


def certificate_signing_request_cells(subject: Subject) -> Cells:
    seconds = subject.at("spec", "expirationSeconds")
    return {
        "SignerName": subject.text("spec", "signerName", default=NONE),
        "Requestor": subject.text("spec", "username"),
        "RequestedDuration": NONE if seconds is None else human_duration(timedelta(seconds=seconds)),
        "Condition": _request_state(subject),
    }


def _request_state(subject: Subject) -> str:
    kinds = {condition.get("type") for condition in subject.items("status", "conditions")}
    state = next((kind for kind in ("Denied", "Approved") if kind in kinds), "Pending")
    failed = ",Failed" if "Failed" in kinds else ""
    issued = ",Issued" if subject.at("status", "certificate") else ""
    return state + failed + issued
