"""The fixture of the plugin, as users have it."""

from kubeskew.simulation.pytest_plugin import simulated_cluster

__all__ = ["simulated_cluster"]
