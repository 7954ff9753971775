"""User agents of clients, which name a component and its release."""

import re

from kubeskew.apimachinery.memo import remembered

_PRODUCT = re.compile(r"^(?P<name>[^/ ]{1,128})[^/ ]*(?:/(?P<version>[^ ]*))?")
_RELEASE = re.compile(r"^v?(\d+\.\d+)(?:\.\d+)?(\+kep\d+)?")


@remembered(256)
def component_of(user_agent: str) -> tuple[str, str]:
    """Reads component and release of `kube-scheduler/v1.36.4 (linux/amd64) …`, as `1.36` or `1.25+kep3063`;
    empty where it does not say.
    """
    found = _PRODUCT.match(user_agent)
    if found is None:
        return "", ""
    release = _RELEASE.match(found["version"] or "")
    return found["name"], "".join(filter(None, release.groups())) if release else ""
