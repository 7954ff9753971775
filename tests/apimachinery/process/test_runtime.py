"""The runtime of a component's process."""

import asyncio
import signal

import pytest

from kubeskew.apimachinery.process.runtime import end_on_signals, run_loop


@pytest.mark.parametrize("fails", [False, True])
def test_a_loop_leaves_the_handlers_of_signals_as_they_were(fails: bool):
    """Ctrl-C works again once a component's loop has ended, also by an error."""
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    async def main() -> None:
        end_on_signals(lambda _: None)
        assert signal.getsignal(signal.SIGINT) is not before[0]
        await asyncio.sleep(0)
        if fails:
            raise LookupError("as it was meant")

    try:
        run_loop(main())
    except LookupError:
        assert fails

    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
