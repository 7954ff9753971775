"""Registers what is particular to the kinds of policy: each by module and name."""

STRATEGIES = {
    "poddisruptionbudgets": "poddisruptionbudget.strategy:BudgetStrategy",
}

CELLS = {
    "PodDisruptionBudget": "poddisruptionbudget.table:pod_disruption_budget",
}
