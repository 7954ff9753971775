"""Registers what is particular to the kinds of policy: each by module and name."""

# by resource: what decides how objects are written
STRATEGIES = {
    "poddisruptionbudgets": "poddisruptionbudget.strategy:BudgetStrategy",
}

# by kind: what makes the cells of table rows
CELLS = {
    "PodDisruptionBudget": "poddisruptionbudget.table:pod_disruption_budget",
}
