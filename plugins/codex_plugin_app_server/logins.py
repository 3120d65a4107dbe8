"""The login with ChatGPT: one at a time for all clients of a server, who are told of its end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from typing import NamedTuple
from uuid import uuid4

from codex_lib_model_client.login.claims import plan
from codex_lib_model_client.login.flow import Issuer
from codex_lib_model_client.login.issuer import CLIENT_ID, DEFAULT_ISSUER, check_url
from codex_lib_model_client.login.policy import LoginPolicy
from codex_lib_model_client.login.storage import LoginStorage
from codex_lib_model_client.login.stored import StoredLogin
from codex_plugin_app_server.schema import protocol
from codex_plugin_app_server.table import Json

__all__ = ["Logins", "auth_mode", "issuer_of", "plan_type"]

_TIMEOUT_S = 900.0
"""How long a login waits for the user."""

_NOT_COMPLETED = "Login was not completed"


class _Login(NamedTuple):
    """A pending login, and the task that reports its end."""

    id: str
    work: asyncio.Task[StoredLogin]
    following: asyncio.Task[None]


class Logins:
    """The pending login, if any.

    Attributes:
        ports: The ports of this machine to which the browser may redirect. By default, the ports that the issuer permits.

    Args:
        broadcast: Sends a notification to all clients.
    """

    def __init__(self, broadcast: Callable[[str, Json], None]) -> None:
        self.ports: tuple[int, ...] | None = None
        self._broadcast = broadcast
        self._current: _Login | None = None
        self._beginning = asyncio.Lock()

    async def begin_in_browser(
        self, issuer: Issuer, storage: LoginStorage, policy: LoginPolicy, originator: str
    ) -> tuple[str, str]:
        """Begin a login in a browser, which replaces a pending login. Return its id, and the address for the browser.

        Raises:
            LoginError: The browser could not redirect to this machine.
        """
        from codex_lib_model_client.login.browser import log_in_by_browser
        from codex_lib_model_client.login.callback import PORTS

        shown: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        async with self._beginning:
            await self.end()
            work = asyncio.ensure_future(
                log_in_by_browser(
                    issuer,
                    policy,
                    save=storage.save,
                    show=lambda address, _: shown.set_result(address),
                    originator=originator,
                    timeout_s=_TIMEOUT_S,
                    ports=self.ports or PORTS,
                )
            )
            try:
                await asyncio.wait((work, shown), return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:  # the client has left
                work.cancel()
                raise
            if not shown.done():
                work.result()
            return self._follow(work, "Login server error: "), shown.result()

    async def begin_with_code(self, issuer: Issuer, storage: LoginStorage, policy: LoginPolicy) -> tuple[str, str, str]:
        """Begin a login with a device code, which replaces a pending login.

        Returns:
            Its id, the page on which the user enters the code, and the code.

        Raises:
            LoginError: The issuer provides no code.
        """
        from codex_lib_model_client.login.device import log_in_by_device, request_code

        cancelled = threading.Event()
        async with self._beginning:
            await self.end()
            code = await asyncio.to_thread(request_code, issuer)

            async def work() -> StoredLogin:
                try:
                    login = await asyncio.to_thread(log_in_by_device, issuer, policy, code, _TIMEOUT_S, cancelled)
                finally:
                    cancelled.set()
                await asyncio.to_thread(storage.save, login)
                return login

            return self._follow(asyncio.ensure_future(work()), ""), code.address, code.code

    def cancel(self, login_id: str) -> bool:
        """Cancel a login. Return whether it was under way."""
        if self._current is None or self._current.id != login_id:
            return False
        self._current.work.cancel()
        return True

    async def end(self) -> None:
        """Cancel the login that is under way, and wait until clients have been told."""
        if self._current is not None:
            self._current.work.cancel()
            await asyncio.wait((self._current.following,))

    def announce(self, login_id: str | None, end: StoredLogin | str) -> None:
        """Tell all clients of the end of a login, or why it failed."""
        error = end if isinstance(end, str) else None
        completed = {"loginId": login_id, "success": error is None, "error": error, "onboardingEntrypoint": None}
        self._broadcast("account/login/completed", completed)
        if isinstance(end, StoredLogin):
            shown = plan_type(end) if end.kind == "chatgpt" else None
            self._broadcast("account/updated", {"authMode": auth_mode(end), "planType": shown, "reason": None})

    def _follow(self, work: asyncio.Task[StoredLogin], prefix: str) -> str:
        """Tell of the end of a login. Return its id."""
        login_id = str(uuid4())

        async def follow() -> None:
            await asyncio.wait((work,))
            self._current = None
            error = None if work.cancelled() else work.exception()
            if work.cancelled() or error is not None:
                self.announce(login_id, f"{prefix}{error or _NOT_COMPLETED}")
            else:
                self.announce(login_id, work.result())

        self._current = _Login(login_id, work, asyncio.ensure_future(follow()))
        return login_id


def issuer_of(environ: Mapping[str, str]) -> Issuer:
    """Return the issuer of logins. Codex's variables name another one for tests. Raises LoginError."""
    url = environ.get("CODEX_APP_SERVER_LOGIN_ISSUER", "").strip().rstrip("/") or DEFAULT_ISSUER
    check_url(url)
    return Issuer(url, environ.get("CODEX_APP_SERVER_LOGIN_CLIENT_ID", "").strip() or CLIENT_ID)


_MODES = {
    "agent": "agentIdentity",
    "apikey": "apikey",
    "chatgpt": "chatgpt",
    "external": "chatgptAuthTokens",
    "personal": "personalAccessToken",
}


def auth_mode(login: StoredLogin) -> str | None:
    """Return the kind of a login in the words of the protocol, or None if the protocol has no word for it."""
    return _MODES.get(login.kind)


def plan_type(login: StoredLogin) -> str:
    """Return the plan of a login with ChatGPT."""
    name = str(plan(login.id_claims) or "").lower()
    return name if name in protocol().definitions["PlanType"]["enum"] else "unknown"
