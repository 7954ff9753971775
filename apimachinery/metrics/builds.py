"""Says by what a component claims to have been built: the same at `/version` and in its metrics."""

import hashlib
import platform

from kubeskew.apimachinery.versions import Version


def build_information(version: Version) -> dict[str, str]:
    """Returns the fields of version.Info that tell about the build, by their names in JSON."""
    return {
        "gitVersion": version.git_version,
        "gitCommit": hashlib.sha1(version.git_version.encode(), usedforsecurity=False).hexdigest(),
        "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z",
        "goVersion": "go1.25.0",
        "compiler": "gc",
        "platform": f"linux/{'arm64' if platform.machine() == 'aarch64' else 'amd64'}",
    }
