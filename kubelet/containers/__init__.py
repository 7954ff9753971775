"""Container runtimes: their interface, the records of sandboxes and containers, and their simulation."""
