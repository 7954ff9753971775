"""Makes the cells that `kubectl get` shows of PriorityLevelConfiguration objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apiserver.registry.tables.subjects import NONE, Cell, Cells, Subject


def priority_level_configuration(subject: Subject) -> Cells:
    limited = subject.at("spec", "limited")
    queuing = subject.at("spec", "limited", "limitResponse", "queuing")

    def of_queues(name: str) -> Cell:
        return NONE if queuing is None else int(queuing.get(name) or 0)

    shares: Cell = NONE
    if limited is not None:
        # The first two betas have another name for it.
        named = "nominalConcurrencyShares", "assuredConcurrencyShares"
        shares = next((limited[name] for name in named if limited.get(name) is not None), 0)
    return {
        "Type": subject.text("spec", "type"),
        "NominalConcurrencyShares": shares,
        "Queues": of_queues("queues"),
        "HandSize": of_queues("handSize"),
        "QueueLengthLimit": of_queues("queueLengthLimit"),
    }
