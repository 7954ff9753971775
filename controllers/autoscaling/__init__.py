"""Autoscalers, as far as they need no metrics."""
