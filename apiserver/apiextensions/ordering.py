"""Orders the versions of a custom resource's group: GA before beta before alpha, then any other name.

Source: k8s.io/apimachinery/pkg/version/helpers.go (CompareKubeAwareVersionStrings), 1.36.
"""

import re

_KUBERNETES = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_STAGES = {"": 0, "beta": 1, "alpha": 2}


def version_order(version: str) -> tuple[int, int, int, str]:
    """Returns a key that sorts the preferred version first; names of another form follow by alphabet."""
    found = _KUBERNETES.fullmatch(version)
    if found is None:
        return len(_STAGES), 0, 0, version
    major, stage, minor = found.groups("")
    return _STAGES[stage], -int(major), -int(minor or 0), version
