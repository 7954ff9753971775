"""Makes the cells that `kubectl get` shows of ResourceQuota objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from collections.abc import Iterator

from kubeskew.apiserver.registry.tables.subjects import (
    Cells,
    Subject,
    quantity,
)


def resource_quota(subject: Subject) -> Cells:
    hard, used = subject.at("status", "hard") or {}, subject.at("status", "used") or {}

    def amounts(*, limits: bool) -> Iterator[str]:
        for name, most in sorted(hard.items()):
            if name.startswith("limits.") is limits:
                yield f"{name}: {quantity(used.get(name))}/{quantity(most)}"

    return {"Request": ", ".join(amounts(limits=False)), "Limit": ", ".join(amounts(limits=True))}
