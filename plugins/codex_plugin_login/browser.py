"""The login with ChatGPT in the browser, for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from codex_lib_model_client.browsers import open_in_browser
from codex_lib_model_client.login.browser import log_in_by_browser
from codex_lib_model_client.login.callback import PORTS
from codex_lib_model_client.login.flow import Issuer
from codex_lib_model_client.login.policy import LoginPolicy
from codex_lib_model_client.login.storage import LoginStorage

__all__ = ["browser_login"]


async def browser_login(
    issuer: Issuer,
    storage: LoginStorage,
    policy: LoginPolicy,
    *,
    echo: Callable[[str], None],
    environ: Mapping[str, str],
    timeout_s: float,
    ports: tuple[int, ...] = PORTS,
) -> None:
    """Open the browser, and store the tokens.

    Raises:
        LoginError: The login failed.
    """

    def show(address: str, port: int) -> None:
        echo(
            f"Starting local login server on http://localhost:{port}.\n"
            f"If your browser did not open, navigate to this URL to authenticate:\n\n{address}\n\n"
            "On a remote or headless machine? Use `codex-framework login --device-auth` instead."
        )
        open_in_browser(address, environ)

    await log_in_by_browser(
        issuer,
        policy,
        save=storage.save,
        show=show,
        originator=environ.get("CODEX_INTERNAL_ORIGINATOR_OVERRIDE") or "codex_cli_rs",
        timeout_s=timeout_s,
        ports=ports,
    )
