"""The scheduling queue: pods that are active, backing off, or wait for something to change."""
