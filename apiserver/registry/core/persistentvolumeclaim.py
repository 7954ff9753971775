"""PersistentVolumeClaim: data sources (`dataSource`, the newer `dataSourceRef`), strategy, cells of tables.

Defaults, which templates of claims share, and checks of the spec are in registry/shared/volumes/claims.py.
Sources: pkg/api/persistentvolumeclaim/util.go, pkg/registry/core/persistentvolumeclaim/strategy.go, 1.36.
"""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.features import VolumeFeatures
from kubeskew.apiserver.registry.generic.builtin import ReturnsDeletedObject, SpecKeptStatus
from kubeskew.apiserver.registry.generic.strategy import Check, StrategyContext
from kubeskew.apiserver.registry.shared.volumes import claims as volumes_claims
from kubeskew.apiserver.registry.shared.volumes.warnings import volume_claim_warnings
from kubeskew.apiserver.registry.tables.cells import Cells, Subject, access_modes, quantity, volume_cells

_TAKEN = {("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot")}
_SHARED = ("apiGroup", "kind", "name")


def settle(spec: Object, old: Object, features: VolumeFeatures) -> None:
    """Sources that old clients expect to be ignored go, in place; both fields get the same value.

    `old` is the spec before the change, empty at a create.
    """
    had_reference = old.get("dataSourceRef") is not None
    across = bool((spec.get("dataSourceRef") or {}).get("namespace"))
    if across and not had_reference and not features.sources_across_namespaces:
        del spec["dataSourceRef"]
    had_any = had_reference or old.get("dataSource") is not None
    if not had_any and spec.get("dataSourceRef") is None and not _is_taken(spec.get("dataSource") or {}):
        spec.pop("dataSource", None)
    if features.any_data_source:
        _complete(spec)


def _is_taken(source: Object) -> bool:
    return (source.get("apiGroup") or "", source.get("kind")) in _TAKEN


def _complete(spec: Object) -> None:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and reference is None:
        spec["dataSourceRef"] = _copied(source)
    elif reference is not None and source is None and not reference.get("namespace"):
        spec["dataSource"] = _copied(reference)


def _copied(source: Object) -> Object:
    return {name: source[name] for name in _SHARED if name in source}


class VolumeClaimStatus(SpecKeptStatus):
    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        plural = ctx.features.volumes.plural_status_path
        return list(
            volumes_claims.status_errors(new, shrinks=ctx.features.volumes.claim_shrinks, plural=plural)
        )


class VolumeClaimStrategy(ReturnsDeletedObject):
    status = VolumeClaimStatus
    loses_defaults = True  # the phase, at a create
    update_checks = (
        Check.METADATA,
        Check.METADATA,
        Check.METADATA_CHANGE,
        Check.STRUCTURE,
        Check.OWN_RULES,
        Check.OWN_RULES,
        Check.CHANGE,
    )

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        obj["status"] = {}
        settle(obj["spec"], {}, ctx.features.volumes)

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare_for_update(new, old, ctx)
        settle(new["spec"], old["spec"], ctx.features.volumes)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(
            volumes_claims.claim_errors(obj["spec"], "spec", classes=ctx.features.volumes.attributes_classes)
        )

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(volumes_claims.claim_update_errors(new, old, ctx.features.volumes))

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return volume_claim_warnings(obj, ctx.features.volumes)


def persistent_volume_claim_cells(subject: Subject) -> Cells:
    volume = subject.text("spec", "volumeName")
    return {
        **volume_cells(subject),
        "Volume": volume,
        "Capacity": quantity(subject.at("status", "capacity", "storage")) if volume else "",
        "Access Modes": access_modes(subject.items("status", "accessModes")) if volume else "",
    }
