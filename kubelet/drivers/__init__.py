"""Example drivers: separate processes with made-up devices, which behave as upstream's plugin library."""
