"""Judges a run by what must hold in every cluster: the invariants I01 to I25, over its log.

`check` of `judgement.py` goes through a log once. Safety is judged at every write, liveness only at the end,
and only of a cluster that has come to rest. docs/invariants.md lists what each holds and what it cannot see.
"""
