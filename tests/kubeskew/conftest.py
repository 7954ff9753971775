import random
from collections.abc import Iterator

import pytest

from kubeskew.cluster.ports import HeldPorts


@pytest.fixture
def ports() -> Iterator[HeldPorts]:
    with HeldPorts(random.Random(1)) as held:
        yield held
