"""The simulated container runtime: containers are acted, nothing runs."""
