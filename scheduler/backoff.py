"""How long a pod that failed waits before it is tried again."""

INITIAL_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 1.0, 10.0


def backoff_seconds(attempts: int) -> float:
    """1 s after the first failed attempt, doubled with each, 10 s at most."""
    if attempts <= 0:
        return 0.0
    return float(min(INITIAL_BACKOFF_SECONDS * 2 ** (min(attempts, 16) - 1), MAX_BACKOFF_SECONDS))
