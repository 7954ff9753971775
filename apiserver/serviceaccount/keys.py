"""Holds the keys and names a server issues and checks tokens with, read when they are first needed."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from kubeskew.apimachinery.security.web_tokens import SigningKey, VerifyingKey


class AccountKeys:
    """Of one server. Without a signing key file it makes a key of its own, which nobody else knows."""

    def __init__(
        self,
        issuers: Sequence[str],
        signing_key_file: str = "",
        key_files: Sequence[str] = (),
        audiences: Sequence[str] = (),
    ) -> None:
        self.issuers = tuple(issuers)
        self.audiences = tuple(audiences) or self.issuers[:1]
        self._signing_key_file = signing_key_file
        self._key_files = tuple(key_files)

    @property
    def issuer(self) -> str:
        """Returns the issuer of new tokens."""
        return self.issuers[0]

    @cached_property
    def signing(self) -> SigningKey:
        """Returns the key that signs new tokens."""
        if self._signing_key_file:
            return SigningKey(Path(self._signing_key_file).read_bytes())
        return SigningKey.generate()

    @cached_property
    def verifying(self) -> tuple[VerifyingKey, ...]:
        """Returns the keys of valid tokens."""
        if not self._key_files:
            return (self.signing.public,)
        return tuple(VerifyingKey.load(Path(file).read_bytes()) for file in self._key_files)
