"""JSON web tokens signed with RSA (RS256) or on the curve P-256 (ES256), and base64 for URLs without padding.

Base64 (RFC 4648, 5) is as strict as Go's encoding/base64.RawURLEncoding. cryptography is imported with the
first token, because its import is slow.

Source: RFC 7515 … 7519; key ids as k8s.io/kubernetes/pkg/serviceaccount/jwt.go (keyIDFromPublicKey), 1.36.
"""

import base64
import hashlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes, PublicKeyTypes

_OTHER = re.compile(r"[^A-Za-z0-9_-]")
_HALF = 32  # bytes of each of the two numbers of an ES256 signature


def encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode(text: str) -> bytes:
    """Ignores line breaks in the text. Raises ValueError with Go's words."""
    clean = text.translate({10: None, 13: None})
    bad = _OTHER.search(clean)
    if bad is not None or len(clean) % 4 == 1:
        raise ValueError(f"illegal base64 data at input byte {bad.start() if bad else len(clean) - 1}")
    return base64.urlsafe_b64decode(clean + "=" * (-len(clean) % 4))


class WrongTokenError(ValueError):
    """The text is no token, or no known key has signed it."""


class Token(NamedTuple):
    header: dict[str, Any]
    claims: dict[str, Any]
    signed: bytes
    signature: bytes


def read(text: str) -> Token:
    """Parses a token without checking its signature; raises WrongTokenError.

    As go-jose does, the signed bytes are encoded again from the parsed parts (jws.go, computeAuthData).
    """
    parts = text.split(".")
    if len(parts) != 3:
        raise WrongTokenError("not three parts")
    try:
        head, payload, signature = map(decode, parts)
        header, claims = orjson.loads(head), orjson.loads(payload)
    except ValueError as error:
        raise WrongTokenError(str(error)) from None
    if not isinstance(header, dict) or not isinstance(claims, dict):
        raise WrongTokenError("header and claims are not objects")
    signed = f"{encode(head)}.{encode(payload)}"
    return Token(header, claims, signed.encode(), signature)


class SigningKey:
    def __init__(self, pem: bytes) -> None:
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        self._key: PrivateKeyTypes = load_pem_private_key(pem, password=None)
        self.public = VerifyingKey(self._key.public_key())

    @classmethod
    def generate(cls) -> "SigningKey":
        """Makes a new key on P-256."""
        return cls(new_key())

    def sign(self, claims: dict[str, Any]) -> str:
        header = {"alg": self.public.algorithm, "kid": self.public.id}
        signed = f"{encode(orjson.dumps(header))}.{encode(orjson.dumps(claims))}"
        return f"{signed}.{encode(self._signature(signed.encode()))}"

    def _signature(self, data: bytes) -> bytes:
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
        from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

        if isinstance(self._key, rsa.RSAPrivateKey):
            return self._key.sign(data, padding.PKCS1v15(), hashes.SHA256())
        if not isinstance(self._key, ec.EllipticCurvePrivateKey):
            raise TypeError("a service account key must be RSA or ECDSA")
        numbers = decode_dss_signature(self._key.sign(data, ec.ECDSA(hashes.SHA256())))
        return b"".join(number.to_bytes(_HALF, "big") for number in numbers)


class VerifyingKey:
    """A public key; `id` is its `kid` in tokens."""

    def __init__(self, key: "PublicKeyTypes") -> None:
        from cryptography.hazmat.primitives.asymmetric import ec, rsa
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        if not isinstance(key, rsa.RSAPublicKey | ec.EllipticCurvePublicKey):
            raise ValueError("a service account key must be RSA or ECDSA")
        self._key = key
        self.algorithm = "RS256" if isinstance(key, rsa.RSAPublicKey) else "ES256"
        der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        self.id = encode(hashlib.sha256(der).digest())

    @classmethod
    def load(cls, pem: bytes) -> "VerifyingKey":
        """Reads a public key, a private key or a certificate in PEM."""
        from cryptography import x509
        from cryptography.hazmat.primitives.serialization import load_pem_public_key

        if b"PRIVATE KEY" in pem:
            return SigningKey(pem).public
        if b"BEGIN CERTIFICATE" in pem:
            return cls(x509.load_pem_x509_certificate(pem).public_key())
        return cls(load_pem_public_key(pem))

    def verifies(self, token: Token) -> bool:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, padding
        from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

        if token.header.get("alg") != self.algorithm:
            return False
        try:
            if isinstance(self._key, ec.EllipticCurvePublicKey):
                if len(token.signature) != 2 * _HALF:
                    return False
                numbers = (token.signature[:_HALF], token.signature[_HALF:])
                pair = encode_dss_signature(*(int.from_bytes(number, "big") for number in numbers))
                self._key.verify(pair, token.signed, ec.ECDSA(hashes.SHA256()))
            else:
                self._key.verify(token.signature, token.signed, padding.PKCS1v15(), hashes.SHA256())
        except InvalidSignature:
            return False
        return True

    def as_jwk(self) -> dict[str, str]:
        """A member of a JSON web key set."""
        from cryptography.hazmat.primitives.asymmetric import ec

        about = {"use": "sig", "kid": self.id}
        if isinstance(self._key, ec.EllipticCurvePublicKey):
            point = self._key.public_numbers()
            x, y = (encode(number.to_bytes(_HALF, "big")) for number in (point.x, point.y))
            return {**about, "kty": "EC", "alg": "ES256", "crv": "P-256", "x": x, "y": y}
        numbers = self._key.public_numbers()
        return {**about, "kty": "RSA", "alg": "RS256", "n": _number(numbers.n), "e": _number(numbers.e)}


def verified(text: str, keys: Sequence[VerifyingKey]) -> Token:
    """Parses a token that one of the keys has signed; raises WrongTokenError."""
    token = read(text)
    wanted = token.header.get("kid")
    known = [key for key in keys if key.id == wanted] or list(keys)
    if not any(key.verifies(token) for key in known):
        raise WrongTokenError("no key has signed it")
    return token


def new_key() -> bytes:
    """A private key on P-256, PEM."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _number(value: int) -> str:
    return encode(value.to_bytes((value.bit_length() + 7) // 8, "big"))
