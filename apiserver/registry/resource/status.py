"""Decides how status writes of resource.k8s.io leave metadata alone."""

from kubeskew.apiserver.registry.generic.strategy import StatusStrategy, StrategyContext


class MetadataKeptStatus(StatusStrategy):
    """Gives the applier of a status no fields of metadata to own."""

    def reset_fields(self, ctx: StrategyContext) -> tuple[tuple[str, ...], ...]:
        return (("metadata",), ("spec",))
