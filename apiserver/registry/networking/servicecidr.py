"""ServiceCIDR: validation, strategy and cells of tables.

Source: pkg/apis/networking/validation/validation.go, pkg/registry/networking/servicecidr/strategy.go, 1.31 to
1.36.
"""

from collections.abc import Iterator
from typing import ClassVar

from kubeskew.apimachinery.field import FieldError, index, invalid, required
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.generic.builtin import ValidatedAsNew
from kubeskew.apiserver.registry.generic.strategy import (
    Check,
    Checks,
    StatusStrategy,
    Strategy,
    StrategyContext,
)
from kubeskew.apiserver.registry.shared import addresses
from kubeskew.apiserver.registry.tables.cells import Cells, Subject, joined


def service_range_errors(spec: Object) -> Iterator[FieldError]:
    """One range is given, or one of each family."""
    cidrs, path = spec.get("cidrs") or [], "spec.cidrs"
    if not cidrs:
        yield required(path, "at least one CIDR required")
        return
    if len(cidrs) > 2:
        yield invalid(path, {"CIDRs": cidrs}, "may only hold up to 2 values")
        return
    for position, text in enumerate(cidrs):
        yield from _canonical(text, index(path, position))
    families = [network.version for text in cidrs if (network := addresses.network(text)) is not None]
    if len(families) == 2 and families[0] == families[1]:
        text = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
        yield invalid(path, cidrs, text)


def _canonical(text: str, path: str) -> Iterator[FieldError]:
    errors = addresses.cidr_errors(path, text, strict=True)
    yield from errors
    shown = str(addresses.network(text))
    if not errors and shown != text:
        yield invalid(path, text, f'must be in canonical form ("{shown}")')


def service_range_update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    after, before = ((service_cidr.get("spec") or {}).get("cidrs") or [] for service_cidr in (new, old))
    path = "spec.cidrs"
    if len(after) == len(before):
        for position, text in enumerate(after):
            if text != before[position]:
                yield invalid(index(path, position), text, IMMUTABLE)
    elif (len(before), len(after)) == (1, 2):
        if after[0] != before[0]:
            yield invalid(index(path, 0), after[0], IMMUTABLE)
        yield from service_range_errors(new["spec"])
    else:
        yield invalid(path, (new.get("spec") or {}).get("cidrs"), IMMUTABLE)


class ServiceCIDRStatus(StatusStrategy):
    """Until 1.35 the fields that writes of the status reset were those of a group that is none."""

    def metadata_kept(self, ctx: StrategyContext) -> tuple[str, ...]:
        return self.kept_metadata if ctx.features.services.cidr_status_keeps_metadata else ()

    def reset_fields(self, ctx: StrategyContext) -> tuple[tuple[str, ...], ...]:
        return (("metadata",), ("spec",)) if ctx.features.services.cidr_status_resets_fields else ()


class ServiceCIDRStrategy(ValidatedAsNew):
    """The status is kept from those who write the rest since 1.36 only, by a gate."""

    status: ClassVar[type[Strategy]] = ServiceCIDRStatus

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        if ctx.features.services.wipes_cidr_status:
            super().prepare_for_create(obj, ctx)

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        if ctx.features.services.wipes_cidr_status:
            super().prepare_for_update(new, old, ctx)

    def reset_fields(self, ctx: StrategyContext) -> tuple[tuple[str, ...], ...]:
        return (("status",),) if ctx.features.services.wipes_cidr_status else ()

    def update_checks_for(self, ctx: StrategyContext) -> Checks:
        if ctx.features.services.range_changes_alone:
            return (Check.METADATA_CHANGE, Check.CHANGE)
        return super().update_checks_for(ctx)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(service_range_errors(obj.get("spec") or {}))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(service_range_update_errors(new, old))


def service_cidr_cells(subject: Subject) -> Cells:
    return {"CIDRs": joined(subject.items("spec", "cidrs"))}
