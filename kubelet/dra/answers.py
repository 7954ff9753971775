"""Checks a driver's answer for a batch of claims against the request (manager.go)."""

from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from typing import TypeVar

from kubeskew.kubelet.device_managers import DeviceError
from kubeskew.kubelet.dra.claims import ClaimInfo
from kubeskew.kubelet.dra.plugin import ClaimFailed, PluginError
from kubeskew.kubelet.dra.texts import ErrorTexts

A = TypeVar("A")


async def claim_answers(
    texts: ErrorTexts,
    call: str,
    answering: Awaitable[Mapping[str, A | ClaimFailed]],
    infos: Sequence[ClaimInfo],
) -> AsyncIterator[tuple[ClaimInfo, A]]:
    """Yields a plugin's answer for each claim.

    Raises DeviceError if it fails, refuses a claim or leaves one out.
    """
    by_uid = {info.uid: info for info in infos}
    try:
        answers = await answering
    except PluginError as error:
        raise DeviceError(texts.call_failed.format(call=call, error=error)) from error
    for uid, answer in answers.items():
        info = by_uid.get(uid)
        if info is None:
            raise DeviceError(texts.unknown.format(call=call, claim_uid=uid))
        if isinstance(answer, ClaimFailed):
            text = texts.claim_failed
            claim = {"namespace": info.namespace, "claim": info.name}
            raise DeviceError(text.format(call=call, error=answer.error, **claim))
        yield info, answer
    if len(answers) < len(infos):
        raise DeviceError(texts.skipped.format(call=call, count=len(infos) - len(answers)))
