"""Verifies Standard Webhooks signatures: `v1` (HMAC-SHA256) and `v1a` (Ed25519), by any of several keys. Pure.

The official package signs for `v1`. It takes text only, so a body that is not UTF-8 is signed here.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable
from datetime import datetime, timezone

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from standardwebhooks import Webhook

_SECRET, _PUBLIC, _PRIVATE = "whsec_", "whpk_", "whsk_"
_SHORTEST_SECRET = 24
_PUBLIC_KEY, _SIGNATURE = 32, 64
#: The most signatures of one request that are looked at. Each costs a verification per public key.
MOST_SIGNATURES = 16


class InvalidKey(ValueError):
    """A key that cannot be used. The message does not show it."""


class Keys:
    """The keys of one sender. During a rotation there are the old and the new one."""

    def __init__(self, keys: str | Iterable[str]) -> None:
        self._secrets: list[bytes] = []
        self._public: list[Ed25519PublicKey] = []
        for position, key in enumerate([keys] if isinstance(keys, str) else keys):
            self._add(position, key.strip())
        if not self._secrets and not self._public:
            raise InvalidKey("there are no keys: nobody's signature would be valid")

    def _add(self, position: int, key: str) -> None:
        if key.startswith(_PRIVATE):
            raise InvalidKey(f"keys[{position}] is a signing key; give the receiver its public key, which begins whpk_")
        if key.startswith(_PUBLIC):
            public = _decoded(key.removeprefix(_PUBLIC))
            if len(public) != _PUBLIC_KEY:
                raise InvalidKey(f"keys[{position}] is not whpk_ followed by the base64 of {_PUBLIC_KEY} bytes")
            self._public.append(Ed25519PublicKey.from_public_bytes(public))
            return
        secret = _decoded(key.removeprefix(_SECRET))
        if len(secret) < _SHORTEST_SECRET:
            raise InvalidKey(
                f"keys[{position}] is not whsec_ followed by the base64 of at least {_SHORTEST_SECRET} bytes"
            )
        self._secrets.append(secret)

    def verify(self, id: str, timestamp: int, body: bytes, signatures: str) -> bool:
        """Returns whether one of the signatures is valid. Every comparison of secrets takes constant time."""
        given = [signature.partition(",")[::2] for signature in signatures.split(" ")]
        if len(given) > MOST_SIGNATURES:
            return False
        expected = [_sign(secret, id, timestamp, body).encode() for secret in self._secrets]
        signed = b"%s.%d.%s" % (id.encode(), timestamp, body)
        valid = False
        for version, signature in given:
            if version == "v1":
                for own in expected:
                    valid |= hmac.compare_digest(own, signature.encode())
            elif version == "v1a":
                for key in self._public:
                    valid |= _is_signed(key, signature, signed)
        return valid


def _sign(secret: bytes, id: str, timestamp: int, body: bytes) -> str:
    """Returns the base64 of a `v1` signature."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        signed = b"%s.%d.%s" % (id.encode(), timestamp, body)
        return base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)).decode()
    return Webhook(secret).sign(id, datetime.fromtimestamp(timestamp, timezone.utc), text).removeprefix("v1,")


def _is_signed(key: Ed25519PublicKey, signature: str, signed: bytes) -> bool:
    try:
        decoded = base64.b64decode(signature, validate=True)
        if len(decoded) != _SIGNATURE:
            return False
        key.verify(decoded, signed)
    except (binascii.Error, ValueError, InvalidSignature):
        return False
    return True


def _decoded(text: str) -> bytes:
    """Returns no bytes for what is not base64. Padding may be missing."""
    text = text.rstrip("=")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return b""
