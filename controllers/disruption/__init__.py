"""The disruption controller, which keeps the status of pod disruption budgets."""
