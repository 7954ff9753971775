"""Rules of persistent volume claims. Source: pkg/apis/core/validation/validation.go, 1.36."""

from apimachinery.errors import Object
from apimachinery.field import FieldError, child, forbidden, invalid, key, not_supported, required
from apimachinery.quantity import Quantity

_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_VOLUME_MODES = ("Block", "Filesystem")
_IMMUTABLE = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound "
    "claims"
)


def claim_errors(spec: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    modes = spec.get("accessModes") or []
    if not modes:
        errors.append(required(child(path, "accessModes"), "at least 1 access mode is required"))
    errors += [
        not_supported(child(path, "accessModes"), mode, _MODES) for mode in modes if mode not in _MODES
    ]
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        text = "may not use ReadWriteOncePod with other access modes"
        errors.append(forbidden(child(path, "accessModes"), text))
    at = key(child(path, "resources"), "storage")
    storage = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if storage is None:
        errors.append(required(at))
    elif Quantity.parse(storage) <= Quantity.parse("0"):
        errors.append(invalid(at, storage, "must be greater than zero"))
    mode = spec.get("volumeMode")
    if mode is not None and mode not in _VOLUME_MODES:
        errors.append(not_supported(child(path, "volumeMode"), mode, _VOLUME_MODES))
    return errors


def claim_update_errors(new: Object, old: Object) -> list[FieldError]:
    """The spec stays, except the size asked for, and what binding fills in."""

    def fixed(spec: Object) -> Object:
        kept = {name: value for name, value in spec.items() if name != "volumeAttributesClassName"}
        kept.pop("resources", None)
        return kept

    before, after = fixed(old["spec"]), fixed(new["spec"])
    for name in ("volumeName", "storageClassName"):
        if not before.get(name):
            after.pop(name, None)
            before.pop(name, None)
    if before == after:
        return []
    return [forbidden("spec", _IMMUTABLE)]
