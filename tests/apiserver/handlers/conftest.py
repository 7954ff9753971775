"""Objects that lists and watches are of."""

import pytest
from server_in_process import MAPS, config_map


@pytest.fixture
async def five(api):
    """Five ConfigMaps a to e; gives their resourceVersions."""
    versions = []
    for name in "abcde":
        labels = {"half": "first" if name < "c" else "second"}
        made = await api.post(MAPS, config_map(name, labels=labels))
        versions.append(made.body["metadata"]["resourceVersion"])
    return versions
