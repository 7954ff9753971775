"""Autoscalers, as far as they work without metrics."""
