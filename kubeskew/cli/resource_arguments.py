"""Finds the resource that an argument of the command line names, as kubectl does."""

from collections.abc import Collection

from kubeskew.apimachinery.catalogue.data import resource_rows, store_of
from kubeskew.apimachinery.suggestions import did_you_mean
from kubeskew.cluster.failures import UserError


def resource_of(text: str, logged: Collection[str]) -> str:
    """Returns the name under which the log keeps a resource that is named by plural, singular, short name or
    kind, with its group behind a dot where that is needed.

    `logged` are the names in the log: custom resources are known by their plural alone. Raises UserError.
    """
    wanted = text.lower()
    names: dict[str, set[str]] = {}
    for row in resource_rows():
        full = f"{row['r']}.{row['g']}".rstrip(".")
        for name in (row["r"], row["s"], row["k"].lower(), *row.get("short", ())):
            for spelt in (name, f"{name}.{row['g']}".rstrip(".")):
                names.setdefault(spelt, set()).add(store_of(full))
    for full in logged:
        for name in (full, full.partition(".")[0]):
            names.setdefault(name, set()).add(full)
    found = sorted(names.get(wanted, ()))
    there = [name for name in found if name in logged]
    if len(there) == 1:
        return there[0]
    if wanted in found:  # of the core group, which kubectl prefers
        return wanted
    if len(found) == 1:
        return found[0]
    if found:
        raise UserError(f"{text} is ambiguous: say {' or '.join(there or found)}")
    raise UserError(f"there is no resource {text}{did_you_mean(wanted, names)}")
