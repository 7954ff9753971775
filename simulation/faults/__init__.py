"""Faults of a whole simulation: drawn from a seed or read from a file, played, and healed before its end.

`plan.py` holds what a plan is, `plan_generator.py` draws one. What goes wrong in one component is written and
carried out as the scenario operation `fault` is (apimachinery/faults); `plan.py` also reads what only a
simulation can do.
"""
