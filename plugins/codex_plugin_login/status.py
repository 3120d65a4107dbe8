"""The output of ``login status``."""

from __future__ import annotations

from collections.abc import Mapping

from codex_framework.toolkit.terminal_text import printable
from codex_lib_model_client.login.claims import email, plan
from codex_lib_model_client.login.storage import LoginStorage

__all__ = ["masked", "status_text"]

_CHECKED = "Authentication is checked when you send a request."


def status_text(storage: LoginStorage, environ: Mapping[str, str]) -> str:
    """Return how the user is logged in, without secrets. Empty if the user is not.

    Raises:
        LoginError: The login cannot be read.
    """
    lines = []
    stored = storage.load()
    match None if stored is None else stored.kind:
        case "apikey" if stored is not None and stored.api_key:
            lines = [f"API key configured - {masked(stored.api_key)}", _CHECKED]
        case "chatgpt" if stored is not None and (stored.access_token or stored.refresh_token):
            who = ", ".join(filter(None, (email(stored.id_claims), plan(stored.id_claims), stored.account)))
            lines = ["Logged in using ChatGPT", *([f"Account: {who}"] if who else [])]
        case "external" if stored is not None and stored.access_token:
            lines = ["Logged in using ChatGPT, with tokens that another program stores"]
        case "agent" if stored is not None and stored.agent_identity:
            lines = ["Logged in using access token"]
        case "personal":
            lines = ["Logged in using personal access token"]
        case _:
            pass
    for name in ("CODEX_API_KEY", "CODEX_ACCESS_TOKEN"):
        if environ.get(name, "").strip():
            lines.append(f"{name} is set and takes precedence." if lines else f"Logged in using {name}")
            break
    if not lines and environ.get("OPENAI_API_KEY", "").strip():
        lines = ["Logged in using OPENAI_API_KEY", _CHECKED]
    return "\n".join(map(printable, lines))


def masked(key: str) -> str:
    """Return a key of which only the beginning and the end can be read, as in Codex."""
    return f"{key[:8]}***{key[-5:]}" if len(key) > 13 else "***"
