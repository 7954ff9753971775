"""Checks `--runtime-config`, which turns API versions on and off, by what a release knows.

Source: apiserver/pkg/server/options/api_enablement.go and server/resourceconfig/helpers.go, 1.26 … 1.37.
"""

from collections.abc import Iterator, Mapping

from kubeskew.apimachinery.catalogue import data
from kubeskew.apimachinery.suggestions import did_you_mean
from kubeskew.apimachinery.versions import SUPPORTED, Version

BROAD_KEYS = ("api/all", "api/ga", "api/beta", "api/alpha")


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
        known = known or {"/".join(each) for version in SUPPORTED for each in _known(version)}
        name = f"{group}/{api_version}"
        if name not in known:
            hint = did_you_mean(name, sorted({*known, *BROAD_KEYS}))
            raise ValueError(f"no release has the API {name}{hint}")


def known_of(config: Mapping[str, bool], version: Version) -> dict[str, bool]:
    """Returns what of a runtime config a release knows: with anything else its server does not start."""
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
    """Returns every group and version of a release, served or not."""
    document, minor, _ = data.release(version)
    return {
        (row["g"], row["v"])
        for row in document["resources"]
        if row["in"][0] <= minor <= row.get("known", row["in"][1])
    }
