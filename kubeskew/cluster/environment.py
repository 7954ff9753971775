"""Makes the environment variables of components."""

import os
from collections.abc import Mapping
from pathlib import Path

# Components trust the cluster's own authority alone: spare them the machine's, which aiohttp reads (75 ms).
_NO_AUTHORITIES = {"SSL_CERT_FILE": os.devnull, "SSL_CERT_DIR": os.devnull}


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment of components beside what is `given` to this command.

    Where Python must not leave bytecode beside its sources, every start would compile them again, which takes
    as long as the rest of it: components keep theirs in the user's cache, if the user has one.
    """
    found = dict(_NO_AUTHORITIES)
    if given.get("PYTHONDONTWRITEBYTECODE") and not given.get("PYTHONPYCACHEPREFIX"):
        bytecode = _bytecode(given)
        if bytecode is not None:
            found["PYTHONPYCACHEPREFIX"] = str(bytecode)
            found["PYTHONDONTWRITEBYTECODE"] = ""
    return found


def _bytecode(given: Mapping[str, str]) -> Path | None:
    """Returns the directory in the user's cache, made if it was not there.

    None where nothing can be written to it: a home that is read-only, or a user without one. Python would
    look there alone, and not find what an installation has compiled beside the sources.
    """
    try:
        caches = Path(given.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        directory = caches / "kubeskew" / "bytecode"
        directory.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # the latter of a user of whom the system knows no home
        return None
    return directory if os.access(directory, os.W_OK | os.X_OK) else None
