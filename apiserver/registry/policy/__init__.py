"""Registers what is particular to the kinds of policy: each by module and name."""

STRATEGIES = {
    "poddisruptionbudgets": "poddisruptionbudget:BudgetStrategy",
}

CELLS = {
    "PodDisruptionBudget": "poddisruptionbudget:pod_disruption_budget_cells",
}
