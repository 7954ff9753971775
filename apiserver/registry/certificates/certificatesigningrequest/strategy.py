"""Decides how CertificateSigningRequests are written.

Source: pkg/registry/certificates/certificates/strategy.go, 1.36.
"""

import copy
from collections.abc import Mapping
from typing import ClassVar

from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.certificates.certificatesigningrequest import (
    validation as certificatesigningrequest_validation,
)
from kubeskew.apiserver.registry.generic.builtin import BuiltIn, SpecKeptStatus
from kubeskew.apiserver.registry.generic.check_order import Check
from kubeskew.apiserver.registry.generic.handwritten_validation import HandwrittenValidation
from kubeskew.apiserver.registry.generic.strategy import Strategy, StrategyContext


class _Signing(HandwrittenValidation):
    """Requests may have any name."""

    update_checks = (Check.CHANGE, Check.METADATA, Check.METADATA_CHANGE)

    def name_check(self, name: str, prefix: bool) -> list[str]:
        return []


class SigningStatus(_Signing, SpecKeptStatus):
    """The status: signers write certificate and conditions; a decision stays as it was."""

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        new["spec"] = copy.deepcopy(old.get("spec") or {})
        for kind in certificatesigningrequest_validation.DECIDED:
            _preserve(new, old, kind)
        _complete_times(new, old, ctx)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return certificatesigningrequest_validation.signing_request_update(
            new, old, ctx.features.internal, signs=True
        )


class SigningApproval(_Signing, SpecKeptStatus):
    """The approval: approvers write conditions, and nothing else."""

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        _complete_times(new, old, ctx)
        status = copy.deepcopy(old.get("status") or {})
        status.pop("conditions", None)
        if conditions := (new.get("status") or {}).get("conditions"):
            status["conditions"] = conditions
        new["spec"], new["status"] = copy.deepcopy(old.get("spec") or {}), status

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return certificatesigningrequest_validation.signing_request_update(
            new, old, ctx.features.internal, decides=True
        )

    def reset_fields(self, ctx: StrategyContext) -> tuple[tuple[str, ...], ...]:
        return (("spec",), ("status", "certificate"))


class SigningRequestStrategy(_Signing, BuiltIn):
    """Writes the requesting user into a new request."""

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
        return certificatesigningrequest_validation.signing_request(obj)

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        new["spec"], new["status"] = old.get("spec") or {}, old.get("status") or {}

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return certificatesigningrequest_validation.signing_request_update(new, old, ctx.features.internal)

    def reset_fields(self, ctx: StrategyContext) -> tuple[tuple[str, ...], ...]:
        return (("spec",), ("status",))


def _conditions(obj: Object) -> list[Object]:
    return (obj.get("status") or {}).get("conditions") or []


def _preserve(new: Object, old: Object, kind: str) -> None:
    """Restores the conditions of a kind, if there are as many as before."""
    before = [condition for condition in _conditions(old) if condition.get("type") == kind]
    after = [position for position, condition in enumerate(_conditions(new)) if condition.get("type") == kind]
    if len(before) == len(after):
        for position, condition in zip(after, before, strict=True):
            new["status"]["conditions"][position] = copy.deepcopy(condition)


def _complete_times(new: Object, old: Object, ctx: StrategyContext) -> None:
    """Sets missing times of conditions; a condition that was there keeps its transition time."""
    now = timestamp(ctx.now)
    known = {
        (condition.get("type"), condition.get("status")): condition["lastTransitionTime"]
        for condition in _conditions(old)
        if condition.get("lastTransitionTime")
    }
    for condition in _conditions(new):
        if not condition.get("lastUpdateTime"):
            condition["lastUpdateTime"] = now
        if not condition.get("lastTransitionTime"):
            key = condition.get("type"), condition.get("status")
            condition["lastTransitionTime"] = known.get(key, now)
