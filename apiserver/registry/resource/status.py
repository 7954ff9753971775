"""Decides how status writes of resource.k8s.io leave metadata alone."""

from kubeskew.apiserver.registry.generic.strategy import StatusStrategy, StrategyContext


class MetadataKeptStatus(StatusStrategy):
    """Who applies a status comes to own nothing else."""

    def reset_fields(self, ctx: StrategyContext) -> tuple[tuple[str, ...], ...]:
        return (("metadata",), ("spec",))
