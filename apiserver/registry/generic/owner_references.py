"""Drops owner references that repeat others, with a warning.

Source: k8s.io/apiserver/pkg/endpoints/handlers/rest.go (dedupOwnerReferencesAndAddWarning), 1.36.
"""

from typing import Any

from kubeskew.apimachinery.objects import Object

_TEXT = (
    ".metadata.ownerReferences contains duplicate entries{}; API server dedups owner references in 1.20+, "
    "and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: "
)
_AFTER = " after mutating admission happens"


def deduplicate(obj: Object, warnings: list[str], *, mutated: bool = False) -> None:
    """Drop references that are equal to an earlier one; `mutated`: admission has had its say."""
    references = obj["metadata"].get("ownerReferences") or []
    if len(references) < 2:
        return
    kept: dict[frozenset[tuple[str, Any]], Object] = {}  # there may be tens of thousands
    twice: list[str] = []
    for reference in references:
        said = frozenset(reference.items())
        if said in kept:
            twice.append(reference.get("uid", ""))
        else:
            kept[said] = reference
    if twice:
        obj["metadata"]["ownerReferences"] = list(kept.values())
        warnings.append(_TEXT.format(_AFTER if mutated else "") + ", ".join(dict.fromkeys(twice)))
