"""Makes TLS contexts that trust one bundle, and reads the certificate of a server that is not trusted."""

import asyncio
import ssl
from functools import lru_cache
from typing import TYPE_CHECKING

from kubeskew.apiserver.webhooks.endpoints import Address

if TYPE_CHECKING:
    from cryptography import x509

Identity = tuple[str, str]  # files of a client certificate and its key
_SECONDS = 2.0  # to look at a certificate once more, for the message only


def _showing(identity: Identity | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if identity is not None:
        context.load_cert_chain(*identity)
    return context


@lru_cache(maxsize=256)
def trusting(bundle: str, identity: Identity | None = None) -> ssl.SSLContext:
    """Returns a context that trusts the certificates in `bundle` (PEM), the machine's if it is empty.

    `identity` is shown to servers that ask for a client certificate.
    """
    context = _showing(identity)
    if bundle:
        context.load_verify_locations(cadata=bundle)
    else:
        context.load_default_certs()
    return context


@lru_cache(maxsize=4)
def trusting_all(identity: Identity | None = None) -> ssl.SSLContext:
    """Returns a context that does not look at who answers."""
    context = _showing(identity)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def shown_by(address: Address, name: str) -> "x509.Certificate | None":
    """Returns the certificate that the server at `address` shows to those who ask for `name`."""
    from cryptography import x509

    try:
        async with asyncio.timeout(_SECONDS):
            _, writer = await asyncio.open_connection(
                address.host, address.port, ssl=trusting_all(), server_hostname=name
            )
    except (OSError, TimeoutError):
        return None
    try:
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return x509.load_der_x509_certificate(shown) if shown else None
    finally:
        writer.close()
