"""Agent identities: an agent has its own key, and signs each request instead of sending a bearer token.

A token (JWT) of ChatGPT brings the key. Codex also stores the key alone. The formats equal those in Codex 0.169, measured with
a login server on loopback.
"""

from __future__ import annotations

import base64
import binascii
import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from codex_framework.contract.value import Value, field
from codex_framework.toolkit.installing import install_command
from codex_lib_model_client.login.claims import claims_of, expires_at
from codex_lib_model_client.login.errors import LoginError
from codex_lib_model_client.login.issuer import Reply, agent_accounts, agent_keys, protocol, request

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

__all__ = ["AgentIdentity", "assertion", "identity_of", "is_identity_token", "register_task", "verified_claims"]

_ISSUER = "https://chatgpt.com/codex-backend/agent-identity"
_AUDIENCE = "codex-app-server"
_LEEWAY_S = 60.0
"""How long ago a token may have expired, in seconds (Codex's)."""

_KEY_FORMS = (
    (bytes.fromhex("302e020100300506032b657004220420"), b"", 0),
    (bytes.fromhex("3051020101300506032b657004220420"), bytes.fromhex("812100"), 32),
)
"""The bytes before and after an Ed25519 key in PKCS#8 (RFC 8410), and the length of the public key that may follow."""
_SEED = 32
_LONGEST_MODULUS = 8192
_HINT = "Create a new access token, or log in with `codex-framework login`."


class AgentIdentity(Value):
    """An agent.

    Attributes:
        seed: Its private key.
        task: The id of the task that its requests belong to. Empty if none is registered yet.
    """

    runtime_id: str
    seed: bytes = field(repr=False)
    account: str
    plan: str | None = None
    is_fedramp: bool = False
    task: str = ""


def is_identity_token(token: str) -> bool:
    """Return whether a text has the form of a token with an identity."""
    return token.count(".") == 2 and bool(claims_of(token))


def identity_of(given: str | Mapping[str, Any], env: Mapping[str, str]) -> AgentIdentity:
    """Return the agent that a token or a stored record describes. A token is verified, for which the login server is asked.

    Blocks: not for an event loop.

    Raises:
        LoginError: The token or the record makes no sense, or the token cannot be verified.
    """
    fields = verified_claims(given, env) if isinstance(given, str) else given
    names = ("agent_runtime_id", "agent_private_key", "account_id")
    runtime_id, key, account = (_text(fields.get(name)) for name in names)
    if not (runtime_id and key and account):
        raise _unusable(f"the agent identity has no {next(name for name in names if not _text(fields.get(name)))}")
    plan = _text(fields.get("plan_type")) or None
    fedramp = fields.get("chatgpt_account_is_fedramp") is True
    return AgentIdentity(runtime_id, _seed(key), account, plan, fedramp, _text(fields.get("task_id")))


def verified_claims(token: str, env: Mapping[str, str]) -> Mapping[str, Any]:
    """Return the claims of a token with an identity, after its signature, issuer, audience and expiry have been checked.

    Raises:
        LoginError: The token is not valid, or cannot be verified.
    """
    _need_cryptography()
    claims = claims_of(token)
    head, signature = token.partition(".")[0], token.rpartition(".")[2]
    try:
        header = json.loads(_decode(head))
    except (ValueError, RecursionError):
        header = None
    if not claims or not isinstance(header, dict) or not _text(header.get("kid")):
        raise _unusable("invalid agent identity JWT format")
    expiry, audience = expires_at(claims), claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    if header.get("alg") != "RS256" or claims.get("iss") != _ISSUER or _AUDIENCE not in audiences:
        raise _unusable("failed to verify agent identity JWT: it is not one of ChatGPT for Codex")
    if expiry is None or expiry + _LEEWAY_S < time.time():
        raise _unusable("failed to verify agent identity JWT: it has expired")
    _check_signature(token.rpartition(".")[0], signature, _key_of(header["kid"], env))
    return claims


def _key_of(kid: str, env: Mapping[str, str]) -> tuple[int, int]:
    """Return the exponent and the modulus of ChatGPT's key of this name."""
    url = agent_keys(env)
    reply = request("GET", url)
    if reply.status != 200:
        raise _unavailable("agent identity JWKS endpoint returned an error", reply)
    keys = reply.content.get("keys")
    for key in keys if isinstance(keys, list) else ():
        if isinstance(key, dict) and key.get("kid") == kid and key.get("kty") == "RSA":
            try:
                numbers = [int.from_bytes(_decode(_text(key.get(name))), "big") for name in ("e", "n")]
            except ValueError:
                break
            if all(numbers) and numbers[1].bit_length() <= _LONGEST_MODULUS:
                return numbers[0], numbers[1]
    raise _unusable("failed to verify agent identity JWT: its key is not trusted")


def _check_signature(signed: str, signature: str, key: tuple[int, int]) -> None:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers

    try:
        public = RSAPublicNumbers(*key).public_key()
        public.verify(_decode(signature), signed.encode("ascii"), PKCS1v15(), hashes.SHA256())
    except (InvalidSignature, ValueError):
        raise _unusable("failed to verify agent identity JWT: its signature is wrong") from None


def register_task(identity: AgentIdentity, env: Mapping[str, str]) -> AgentIdentity:
    """Return the identity with a new task. Blocks: not for an event loop.

    Raises:
        LoginError: The login server refuses, or does not answer as it should.
    """
    now = _now()
    signed = _signature(identity, f"{identity.runtime_id}:{now}")
    url = f"{agent_accounts(env)}/v1/agent/{quote(identity.runtime_id, safe='')}/task/register"
    reply = request("POST", url, body={"timestamp": now, "signature": signed})
    if reply.status != 200:
        if reply.status in (400, 401, 403, 404):
            fact = f"the agent identity was refused with status {reply.status} when a task was registered"
            raise LoginError(fact, reason="refused", hint=_HINT)
        raise _unavailable("agent task registration failed", reply)
    task = reply.text("task_id") or reply.text("taskId")
    if not task:
        encrypted = reply.text("encrypted_task_id") or reply.text("encryptedTaskId")
        raise protocol(url, "it encrypted the id of the task" if encrypted else "it sent no id of a task")
    return identity.evolve(task=task)


def assertion(identity: AgentIdentity) -> str:
    """Return what authorizes a request now."""
    now = _now()
    fields = {
        "agent_runtime_id": identity.runtime_id,
        "signature": _signature(identity, f"{identity.runtime_id}:{identity.task}:{now}"),
        "task_id": identity.task,
        "timestamp": now,
    }
    text = json.dumps(fields, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode("ascii")


def _signature(identity: AgentIdentity, text: str) -> str:
    _need_cryptography()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key: Ed25519PrivateKey = Ed25519PrivateKey.from_private_bytes(identity.seed)
    return base64.b64encode(key.sign(text.encode("utf-8", "surrogateescape"))).decode("ascii")


def _need_cryptography() -> None:
    try:
        import cryptography  # noqa: F401  # only to know whether it is there
    except ImportError:
        raise LoginError(
            "agent identities need the package `cryptography`, which is not installed",
            reason="unsupported",
            hint=f"Install the extra: {install_command('codex-framework[identity]')}",
        ) from None


def _seed(text: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise _unusable("the private key of the agent identity is not valid base64") from None
    for before, after, rest in _KEY_FORMS:
        seed, ending = data[len(before) : len(before) + _SEED], data[len(before) + _SEED :]
        if (
            data.startswith(before)
            and len(seed) == _SEED
            and ending[: len(after)] == after
            and len(ending) == len(after) + rest
        ):
            return seed
    raise _unusable("the private key of the agent identity is not an Ed25519 key in PKCS#8")


def _decode(text: str) -> bytes:
    """Decode base64 for URLs, without padding. Raises ValueError."""
    return base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def _unusable(fact: str) -> LoginError:
    return LoginError(fact, reason="unreadable", hint=_HINT)


def _unavailable(fact: str, reply: Reply) -> LoginError:
    again = reply.status == 429 or reply.status >= 500
    return LoginError(f"{fact} (status {reply.status})", reason="unreachable", hint="Try again later.", retryable=again)
