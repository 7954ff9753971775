"""Seeds random draws in tests: the same in every `make test`, others in `make test-random`."""

import os

SEED = int(os.environ.get("TEST_SEED", "1"))
_EXAMPLES = int(os.environ.get("TEST_EXAMPLES", "0"))


def examples(usual: int) -> int:
    """Returns how many examples of a property are tried: as many as `make test-random` asks for, else the
    usual."""
    return _EXAMPLES or usual
