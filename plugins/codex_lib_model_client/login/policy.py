"""The logins that the configuration permits: ``forced_login_method`` and ``forced_chatgpt_workspace_id``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codex_framework.contract.value import Value
from codex_framework.toolkit.terminal_text import one_line
from codex_lib_model_client.login.errors import LoginError
from codex_lib_model_client.login.stored import StoredLogin

__all__ = ["LoginPolicy"]

_HINT = "Run `codex-framework logout`, then log in as required."


class LoginPolicy(Value):
    """The permitted logins.

    Attributes:
        method: ``chatgpt`` or ``api``. None permits both.
        workspaces: The ids of the ChatGPT workspaces. Empty permits all.
    """

    method: str | None = None
    workspaces: tuple[str, ...] = ()

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> LoginPolicy:
        """Return the policy of a configuration."""
        method, given = config.get("forced_login_method"), config.get("forced_chatgpt_workspace_id")
        named = [given] if isinstance(given, str) else given or ()
        return cls(method if method in ("chatgpt", "api") else None, tuple(str(each) for each in named if each))

    def check(self, login: StoredLogin) -> None:
        """Check a login.

        Raises:
            LoginError: It is not permitted.
        """
        if login.kind == "apikey":
            self.check_key()
        elif login.kind != "other":
            self.check_tokens()
            if login.kind in ("chatgpt", "external"):
                self.check_account(login.account)

    def check_key(self) -> None:
        """Check that API keys are permitted. Raises LoginError."""
        if self.method == "chatgpt":
            raise _forbidden("ChatGPT login is required, but an API key is currently being used.")

    def check_tokens(self) -> None:
        """Check that logins with ChatGPT are permitted. Raises LoginError."""
        if self.method == "api":
            raise _forbidden("API key login is required, but ChatGPT is currently being used.")

    def check_account(self, account: str | None) -> None:
        """Check the workspace of a login with ChatGPT. Raises LoginError."""
        if self.workspaces and account not in self.workspaces:
            raise _forbidden(
                f"Login is restricted to workspace(s) {', '.join(self.workspaces)},"
                f" but current credentials belong to {one_line(account or 'no workspace')}."
            )


def _forbidden(fact: str) -> LoginError:
    return LoginError(fact, reason="forbidden", hint=_HINT)
