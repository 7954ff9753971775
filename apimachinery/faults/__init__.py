"""Faults that are put into a running component on purpose: what they are, when they fire, what they do.

`fault.py` holds what a fault is, `reading.py` reads it from a scenario or the command line, `deciding.py`
says of each call which faults fire. None of these reads a clock, a file or a socket. `injecting.py` carries
out what was decided, for a client as for a server; `process.py` keeps the faults of a process in files.
"""
