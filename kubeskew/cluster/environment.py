"""Makes the environment variables of components."""

import os
from collections.abc import Mapping
from pathlib import Path

# Components trust the cluster's own authority alone: spare them the machine's, which aiohttp reads (75 ms).
_NO_AUTHORITIES = {"SSL_CERT_FILE": os.devnull, "SSL_CERT_DIR": os.devnull}


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment of components beside what is `given` to this command.

    Where Python must not leave bytecode beside its sources, every start would compile them again, which takes
    as long as the rest of it: components keep theirs in the user's cache.
    """
    found = dict(_NO_AUTHORITIES)
    if given.get("PYTHONDONTWRITEBYTECODE") and not given.get("PYTHONPYCACHEPREFIX"):
        caches = given.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        found["PYTHONPYCACHEPREFIX"] = str(Path(caches) / "kubeskew" / "bytecode")
        found["PYTHONDONTWRITEBYTECODE"] = ""
    return found
