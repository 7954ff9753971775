"""The scheduler's metrics, with upstream's names."""
