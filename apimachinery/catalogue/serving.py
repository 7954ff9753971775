"""Decides which API versions and resources a server serves: the release's defaults, then `--runtime-config`.

Rules: facts of discovery (GA only; beta off since 1.24) and pkg/controlplane/instance.go's exceptions.
"""

import re
from collections.abc import Collection, Mapping

from kubeskew.apimachinery.versions import Version

_STABILITY = re.compile(r"^v\d+(?:(alpha|beta)\d+)?$")
_FLOW_CONTROL = "flowcontrol.apiserver.k8s.io"

# Beta versions that were on before betas became opt-in: {(group, version): last minor}.
_BETA_ON_UNTIL = {
    (_FLOW_CONTROL, "v1beta2"): 28,
    (_FLOW_CONTROL, "v1beta3"): 31,
    ("storage.k8s.io", "v1beta1"): 26,  # csistoragecapacities
}
_BROAD = (("api/all", None), ("api/ga", "ga"), ("api/beta", "beta"), ("api/alpha", "alpha"))


def stability(version: str) -> str:
    """Returns `ga`, `beta` or `alpha` for an API version's name."""
    found = _STABILITY.match(version)
    return (found and found[1]) or "ga"


def version_order(version: str) -> tuple[int, int, int]:
    """Returns the sort key of API versions in discovery: GA before beta before alpha, higher first."""
    major, _, minor = re.sub(r"alpha|beta", "/", version.removeprefix("v")).partition("/")
    if not major.isdigit():
        return 3, 0, 0
    return ("ga", "beta", "alpha").index(stability(version)), -int(major), -int(minor or 0)


def parse_runtime_config(text: str) -> dict[str, bool]:
    """Parses `--runtime-config`: `api/all=true,resource.k8s.io/v1beta1=true`; a bare key means true."""
    found = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        key, _, value = item.partition("=")
        if value.lower() not in ("", "true", "false", "1", "0"):
            raise ValueError(f"invalid value {key}={value}")
        found[key] = value.lower() in ("", "true", "1")
    return found


def is_served(
    version: Version,
    group: str,
    api_version: str,
    plural: str,
    config: Mapping[str, bool],
    by_default: Collection[str] = (),
) -> bool:
    """Returns whether the resource is on; the more specific key of the runtime config wins.

    `by_default`: API versions that are on by default although they are alpha or beta.
    """
    name = f"{group}/{api_version}" if group else api_version
    for key in (f"{name}/{plural}", name):
        if key in config:
            return config[key]
    level = stability(api_version)
    served = (
        level == "ga" or name in by_default or version.minor <= _BETA_ON_UNTIL.get((group, api_version), 0)
    )
    for key, concerns in _BROAD:
        if key in config and concerns in (None, level):
            served = config[key]
    return served
