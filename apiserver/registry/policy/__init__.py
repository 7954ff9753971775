"""Strategies and cells of policy stand here by module and name; `index` imports them."""

STRATEGIES = {
    "poddisruptionbudgets": "poddisruptionbudget:BudgetStrategy",
}

CELLS = {
    "PodDisruptionBudget": "poddisruptionbudget:pod_disruption_budget_cells",
}
