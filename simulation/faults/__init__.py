"""Faults of a whole simulation: drawn from a seed or read from a file, played, and healed before its end.

`plan.py` defines a plan, `plan_generator.py` draws one. Faults of one component are written and carried out
as the scenario operation `fault` is (apimachinery/faults); `plan.py` also reads faults that only a simulation
can have.
"""
