"""Calls of a driver for several claims: its answers are checked against what it was asked for."""

from collections.abc import Awaitable, Iterator, Mapping, Sequence
from typing import TypeVar

from kubeskew.kubelet.device_managers import DeviceError
from kubeskew.kubelet.dra.claims import ClaimInfo
from kubeskew.kubelet.dra.plugin import ClaimFailed, PluginError
from kubeskew.kubelet.dra.texts import ErrorTexts

A = TypeVar("A")


async def answers_of(
    texts: ErrorTexts, call: str, answering: Awaitable[Mapping[str, A | ClaimFailed]]
) -> Mapping[str, A | ClaimFailed]:
    """Raises DeviceError if the call fails as a whole."""
    try:
        return await answering
    except PluginError as error:
        raise DeviceError(texts.call_failed.format(call=call, error=error)) from error


def claims_of(
    texts: ErrorTexts, call: str, answers: Mapping[str, A | ClaimFailed], infos: Sequence[ClaimInfo]
) -> Iterator[tuple[ClaimInfo, A]]:
    """Yields each claim with its answer. Raises DeviceError for one that was refused, or is unknown."""
    by_uid = {info.uid: info for info in infos}
    for uid, answer in answers.items():
        info = by_uid.get(uid)
        if info is None:
            raise DeviceError(texts.unknown.format(call=call, claim_uid=uid))
        if isinstance(answer, ClaimFailed):
            claim = {"namespace": info.namespace, "claim": info.name}
            raise DeviceError(texts.claim_failed.format(call=call, error=answer.error, **claim))
        yield info, answer


def check_complete(texts: ErrorTexts, call: str, answers: Mapping[str, object], asked: int) -> None:
    """Raises DeviceError if the driver left a claim out."""
    if len(answers) < asked:
        raise DeviceError(texts.skipped.format(call=call, count=asked - len(answers)))
