"""Warns of host names in pod templates that no pod could have."""

from kubeskew.apimachinery import names
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.shared.podtemplate.warnings import label_text

_HOST_NAMES = (
    "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS "
    "label is recommended: "
)


def host_name_warnings(obj: Object) -> list[str]:
    """Warns of a name that makes names of pods that no host can have."""
    texts = names.dns1123_label(obj["metadata"].get("name") or "")
    return [_HOST_NAMES + label_text(texts)] if texts else []
