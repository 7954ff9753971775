"""Makes what a server needs to speak TLS."""

import ssl
from functools import lru_cache
from pathlib import Path


def serving_context(certificate: str, key: str, *client_authorities: str) -> ssl.SSLContext:
    """Returns TLS with the server's certificate; client certificates are verified against the authorities.

    All are files; empty names of authorities are left out. Servers of one process that have the same files
    share the context, which takes a millisecond to make. Raises OSError, ssl.SSLError.
    """
    files = (certificate, key, *filter(None, client_authorities))
    return _context(files, tuple(Path(file).read_bytes() for file in files))


@lru_cache(maxsize=8)
def _context(files: tuple[str, ...], _contents: tuple[bytes, ...]) -> ssl.SSLContext:
    certificate, key, *authorities = files
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["http/1.1"])
    context.num_tickets = 1  # one session to resume is enough; a ticket costs 0.3 ms
    for file in authorities:
        context.load_verify_locations(file)
        context.verify_mode = ssl.CERT_OPTIONAL
    return context
