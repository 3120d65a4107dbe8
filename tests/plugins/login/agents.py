"""Agent identities as ChatGPT gives them, with keys of a test."""

from __future__ import annotations

import base64
import json
import time
from functools import cache
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key

from tests.plugins.login.issuer import Issuer, Seen

__all__ = ["Agents", "coded", "new_signer"]


def coded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@cache
def new_signer(number: int = 0) -> RSAPrivateKey:
    """A key that signs tokens, the same one for a number: it takes long to make."""
    return generate_private_key(public_exponent=65537, key_size=2048)


class Agents:
    """Who gives identities to agents.

    Attributes:
        key: The private key of the agent.
        record: The identity as Codex stores it without a token.
    """

    def __init__(self, issuer: Issuer) -> None:
        self.signer = new_signer()
        self.key = Ed25519PrivateKey.generate()
        form = (serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        self.record = {
            "agent_runtime_id": "run/1",
            "agent_private_key": base64.b64encode(self.key.private_bytes(*form)).decode(),
            "account_id": "acct-1",
            "chatgpt_user_id": "user-1",
            "email": "a@example.com",
            "plan_type": "pro",
            "chatgpt_account_is_fedramp": False,
        }
        self.tasks = 0
        self.issuer = issuer
        issuer.answers["/keys/agent-identities/jwks"] = lambda _: (200, {"keys": [{"kid": "other"}, self.public()]})
        issuer.answers["/agents/v1/agent/run%2F1/task/register"] = self._registered
        self.env = {
            "CODEX_AGENT_IDENTITY_JWKS_BASE_URL": f"{issuer.url}/keys",
            "CODEX_AGENT_IDENTITY_AUTHAPI_BASE_URL": f"{issuer.url}/agents",
        }

    def public(self, **more: Any) -> dict[str, Any]:
        numbers = self.signer.public_key().public_numbers()
        size = (numbers.n.bit_length() + 7) // 8
        key = {
            "kid": "k1",
            "kty": "RSA",
            "e": coded(numbers.e.to_bytes(3, "big")),
            "n": coded(numbers.n.to_bytes(size, "big")),
        }
        return {**key, **more}

    def claims(self, **more: Any) -> dict[str, Any]:
        now = int(time.time())
        given = {
            "iss": "https://chatgpt.com/codex-backend/agent-identity",
            "aud": "codex-app-server",
            "exp": now + 3600,
        }
        return {**given, **self.record, **more}

    def token(self, head: dict[str, Any] | None = None, signer: RSAPrivateKey | None = None, **more: Any) -> str:
        head = {"alg": "RS256", "kid": "k1", **(head or {})}
        signed = f"{coded(json.dumps(head).encode())}.{coded(json.dumps(self.claims(**more)).encode())}"
        return f"{signed}.{coded((signer or self.signer).sign(signed.encode(), PKCS1v15(), hashes.SHA256()))}"

    def check(self, signature: str, signed: str) -> None:
        """Raises InvalidSignature if the agent did not sign this."""
        self.key.public_key().verify(base64.b64decode(signature), signed.encode())

    def _registered(self, seen: Seen) -> tuple[int, Any]:
        self.check(seen.form["signature"], f"run/1:{seen.form['timestamp']}")
        self.tasks += 1
        return 200, {"task_id": f"task-{self.tasks}"}
