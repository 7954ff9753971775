"""Faults that are put into a running component on purpose: as data, when they fire, and their effects.

`fault.py` defines a fault, `syntax.py` reads it from a scenario or the command line, `decisions.py` decides
at each call which faults fire. None of these reads a clock, a file or a socket. `injector.py` carries out the
decisions, for a client as for a server; `journal.py` keeps the faults of a process in files.
"""
