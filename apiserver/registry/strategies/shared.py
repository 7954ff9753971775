"""What several kinds have in common: a generation, and which metadata a status write leaves alone."""

from typing import ClassVar

from apiserver.registry.strategy import StatusStrategy, Strategy, StrategyContext


class SpecKeptStatus(StatusStrategy):
    """Status writes of kinds that never called ResetObjectMetaForStatus: metadata may change with them."""

    kept_metadata = ()


class LabelsKeptStatus(StatusStrategy):
    """As a deployment's: only labels stay."""

    kept_metadata = ("labels",)


class Counted(Strategy):
    """A kind that counts its generations."""

    status: ClassVar[type[Strategy]] = SpecKeptStatus

    def counts_generation(self, ctx: StrategyContext) -> bool:
        return True


class Returned(Strategy):
    """A kind without rules of its own whose DELETE answers with the object."""

    status = SpecKeptStatus
    returns_deleted_object = True


class CreatedByUpdate(Strategy):
    """A kind that a PUT may create."""

    status = SpecKeptStatus
    allow_create_on_update = True


class Conditional(Strategy):
    """A kind whose updates must carry a resourceVersion."""

    status = SpecKeptStatus
    allow_unconditional_update = False


class CountedConditional(Counted):
    allow_unconditional_update = False
