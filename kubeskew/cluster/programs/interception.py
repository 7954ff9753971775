"""Faults that a real program cannot be given, with the reason.

The proxy of a shim is between a program and the API server that it asks; before a real API server there is
none, but its writes to the log go through its shim.
"""

from kubeskew.apimachinery.faults.fault import PLUGIN_CALLS, Fault, Kind
from kubeskew.cluster.state import Process


def obstacle(process: Process, fault: Fault) -> str:
    """The reason why the process cannot have the fault; empty if it can, or is emulated."""
    if process.program is None:
        return ""
    where = fault.where
    if process.kind == "apiserver":
        if fault.effect.kind is Kind.OUTAGE or not where.commit:
            return "only its writes to the log can be intercepted: clients reach it directly"
        return "its writes to the log do not say who asked for them" if where.user else ""
    if where.commit:
        return "what it writes to its store cannot be intercepted"
    return "its calls of drivers cannot be intercepted" if {*where.verbs} & {*PLUGIN_CALLS} else ""
