"""API versions and resources that a server serves: the release's defaults, then `--runtime-config`.

The flag is checked against the API versions of the release. Rules: facts of discovery (GA only; beta off
since 1.24) and pkg/controlplane/instance.go's exceptions.

Sources: apiserver/pkg/server/options/api_enablement.go and server/resourceconfig/helpers.go, 1.26 … 1.37.
"""

import re
from collections.abc import Collection, Iterator, Mapping

from kubeskew.apimachinery.catalogue import data
from kubeskew.apimachinery.known_names import did_you_mean
from kubeskew.apimachinery.versions import Version, supported

_STABILITY = re.compile(r"^v\d+(?:(alpha|beta)\d+)?$")
_FLOW_CONTROL = "flowcontrol.apiserver.k8s.io"

# Beta versions that were on before betas became opt-in: {(group, version): last minor}.
_BETA_ON_UNTIL = {
    (_FLOW_CONTROL, "v1beta2"): 28,
    (_FLOW_CONTROL, "v1beta3"): 31,
    ("storage.k8s.io", "v1beta1"): 26,  # csistoragecapacities
}
_BROAD = (("api/all", None), ("api/ga", "ga"), ("api/beta", "beta"), ("api/alpha", "alpha"))
BROAD_KEYS = ("api/all", "api/ga", "api/beta", "api/alpha")


def stability(version: str) -> str:
    """`ga`, `beta` or `alpha`; a name of any other form counts as `ga`."""
    found = _STABILITY.match(version)
    return (found and found[1]) or "ga"


def version_order(version: str) -> tuple[int, int, int]:
    """Sorts as discovery does: GA before beta before alpha, higher numbers first, other names last."""
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
    """The more specific key of the runtime config wins.

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


def check_runtime_config(config: Mapping[str, bool], version: Version) -> None:
    """Raises ValueError, in the words of a server of that release, for keys with which it does not start."""
    if config == {"api/all": False}:
        raise ValueError("invalid key with only api/all=false")
    known = _known(version)
    groups = {group for group, _ in known}
    named = [*_named(config)]
    if unknown := [group for group, _ in named if group not in groups]:
        raise ValueError(f"unknown api groups {','.join(unknown)}")
    for group, api_version in named:
        if (group, api_version) not in known:
            raise ValueError(f"group version {group}/{api_version} that has not been registered")


def check_for_any_release(config: Mapping[str, bool]) -> None:
    """Raises ValueError for an API version that no release has."""
    known: set[str] = set()
    for group, api_version in _named(config):
        known = known or {"/".join(each) for version in supported() for each in _known(version)}
        name = f"{group}/{api_version}"
        if name not in known:
            hint = did_you_mean(name, sorted({*known, *BROAD_KEYS}))
            raise ValueError(f"no release has the API {name}{hint}")


def known_of(config: Mapping[str, bool], version: Version) -> dict[str, bool]:
    """Drops the keys that a release does not know: with them its server would not start."""
    if not any(True for _ in _named(config)):
        return dict(config)
    known = _known(version)
    return {key: on for key, on in config.items() if key in BROAD_KEYS or tuple(key.split("/")[:2]) in known}


def _named(config: Mapping[str, bool]) -> Iterator[tuple[str, str]]:
    """Yields group and version of the keys that name one; raises ValueError for keys of another shape."""
    for key in config:
        if key in BROAD_KEYS:
            continue
        parts = key.split("/")
        if len(parts) not in (2, 3) or not all(parts):
            raise ValueError(f"runtime-config invalid key {key}")
        yield parts[0], parts[1]


def _known(version: Version) -> set[tuple[str, str]]:
    """Versions that are not served are contained, too."""
    document, minor, _ = data.release(version)
    return {
        (row["g"], row["v"])
        for row in document["resources"]
        if row["in"][0] <= minor <= row.get("known", row["in"][1])
    }
