"""Reads the AppArmor profile that a container's annotation or security context names."""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.shared.podtemplate.security import app_armor_errors

_TYPES = {"unconfined": "Unconfined", "runtime/default": "RuntimeDefault"}


def app_armor_profile(annotation: str) -> Object | None:
    """Returns the field that an annotation stands for; None if it is not valid."""
    if annotation in _TYPES:
        return {"type": _TYPES[annotation]}
    if not annotation.startswith("localhost/"):
        return None
    profile = {"type": "Localhost", "localhostProfile": annotation.removeprefix("localhost/")}
    return None if app_armor_errors(profile, "") else profile
