"""Faults that are put into a running component on purpose: what they are, when they fire, what they do.

`fault.py` holds what a fault is, `syntax.py` reads it from a scenario or the command line, `decisions.py`
says of each call which faults fire. None of these reads a clock, a file or a socket. `injector.py` carries
out what was decided, for a client as for a server; `journal.py` keeps the faults of a process in files.
"""
