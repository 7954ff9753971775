"""Faults that a real program cannot be given, with the reason.

The proxy of a shim is between a program and the API server that it asks, and before a real API server, whose
writes to the log go through its shim, too.
"""

from kubeskew.apimachinery.faults.fault import PLUGIN_CALLS, Fault
from kubeskew.cluster.state import Process


def obstacle(process: Process, fault: Fault) -> str:
    """The reason why the process cannot have the fault; empty if it can, or is emulated."""
    if process.program is None:
        return ""
    where = fault.where
    if process.kind == "apiserver":
        commits = where.commit and where.user
        return "its writes to the log do not say who asked for them" if commits else ""
    if where.commit:
        return "what it writes to its store cannot be intercepted"
    return "its calls of drivers cannot be intercepted" if {*where.verbs} & {*PLUGIN_CALLS} else ""
