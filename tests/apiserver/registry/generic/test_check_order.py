"""The order in which a strategy's checks are made."""

import pytest

from kubeskew.apiserver.registry.generic.strategy import Check, Strategy


@pytest.mark.parametrize("check", [Check.CHANGE, Check.METADATA_CHANGE])
def test_a_new_object_has_no_change_to_check(check):
    """A check of a change that a strategy lists for a create is an error, never passed over."""

    class Confused(Strategy):
        create_checks = (Check.METADATA, check)

    with pytest.raises(ValueError, match="belongs to update_checks"):
        Confused().check_new({"metadata": {"name": "x"}}, None, [])
