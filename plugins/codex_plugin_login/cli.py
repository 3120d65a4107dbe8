"""``codex-framework login`` and ``codex-framework logout``."""

from __future__ import annotations

import asyncio
import codecs
import os
import sys

import click

from codex_framework import PluginContext
from codex_framework.toolkit.lazy_command import help_group
from codex_framework.toolkit.terminal_text import printable
from codex_lib_model_client.login.errors import LoginError
from codex_lib_model_client.login.issuer import CLIENT_ID, DEFAULT_ISSUER, check_url, revoke, whoami
from codex_lib_model_client.login.policy import LoginPolicy
from codex_lib_model_client.login.storage import LoginStorage, store_mode
from codex_lib_model_client.login.stored import StoredLogin

__all__ = ["login_command", "logout_command"]

_TIMEOUT_S = 900.0
"""How long a login waits for the user (Codex's limit of a device code)."""
_LONGEST_SECRET = 65_536


def login_command(plugin: PluginContext) -> click.Command:
    """Return ``login`` with its subcommand ``status``."""

    @help_group("Configure")
    @click.group("login", invoke_without_command=True, short_help="Log in to OpenAI, with ChatGPT or an API key.")
    @click.option("--with-api-key", is_flag=True, help="Read the API key from stdin.")
    @click.option("--with-access-token", is_flag=True, help="Read an access token from stdin.")
    @click.option("--device-auth", is_flag=True, help="Log in with a code that you enter in a browser on any device.")
    @click.option(
        "--issuer",
        "--experimental_issuer",
        "issuer",
        metavar="URL",
        default=DEFAULT_ISSUER,
        help="The OAuth issuer to log in at.",
    )
    @click.option("--client-id", "--experimental_client-id", "client_id", metavar="ID", default=CLIENT_ID, hidden=True)
    @click.option(
        "--timeout",
        type=click.FloatRange(min=0, min_open=True, max=86_400),
        default=_TIMEOUT_S,
        show_default=True,
        metavar="SECONDS",
        help="How long to wait for the login.",
    )
    @click.pass_context
    def command(
        context: click.Context,
        /,
        issuer: str,
        client_id: str,
        timeout: float,
        *,
        with_api_key: bool,
        with_access_token: bool,
        device_auth: bool,
    ) -> None:
        """Log in to OpenAI. Without options, your browser opens for a login with ChatGPT.

        The login is stored as `cli_auth_credentials_store` says, by default in $CODEX_HOME/auth.json, which Codex shares.
        """
        if context.invoked_subcommand is not None:
            return
        if with_api_key + with_access_token + device_auth > 1:
            raise click.UsageError("--with-api-key, --with-access-token and --device-auth exclude each other.")
        place = _Place(plugin)
        if with_api_key:
            place.policy.check_key()
            place.keep(StoredLogin.of_key(_secret("API key", "printenv OPENAI_API_KEY", "--with-api-key")))
            click.echo("API key saved. Authentication is checked when you send a request.", err=True)
            return
        place.policy.check_tokens()
        if with_access_token:
            token = _secret("access token", "printenv CODEX_ACCESS_TOKEN", "--with-access-token")
            place.keep(place.by_token(token))
        else:
            place.log_in(issuer.rstrip("/"), client_id, timeout, by_device=device_auth)
        click.echo("Successfully logged in", err=True)

    command.add_command(_status_command(plugin))
    return command


def logout_command(plugin: PluginContext) -> click.Command:
    """Return ``logout``."""

    @help_group("Configure")
    @click.command("logout", short_help="Remove the stored login.")
    def command() -> None:
        """Remove the stored login, and revoke its tokens at the issuer."""
        place = _Place(plugin)
        try:
            stored = place.storage.load()
        except LoginError as error:
            click.echo(f"warning: {printable(str(error))}", err=True)  # what cannot be read can be deleted
            stored = None
        left: LoginError | None = None
        try:
            if not place.storage.delete():
                click.echo("Not logged in", err=True)
                return
        except LoginError as error:
            left = error
        if stored is not None and stored.kind == "chatgpt" and (token := stored.refresh_token or stored.access_token):
            kind = "refresh_token" if stored.refresh_token else "access_token"
            if not revoke(token, plugin.environ, kind=kind, issuer=stored.issuer, client_id=stored.client_id):
                click.echo("warning: the login server did not confirm that the tokens are revoked", err=True)
        if left is not None:
            raise left
        click.echo("Successfully logged out", err=True)

    return command


def _status_command(plugin: PluginContext) -> click.Command:
    @click.command("status", short_help="Show the login.")
    def command() -> None:
        """Show how you are logged in. The exit status is 1 if you are not, or if the configuration forbids this login."""
        from codex_plugin_login.status import status_text

        text = status_text(_Place(plugin).storage, plugin.environ)
        click.echo(text or "Not logged in", err=True)
        if not text:
            raise click.exceptions.Exit(1)
        login = _Place(plugin).storage.load()
        if login is not None:
            LoginPolicy.of(plugin.config).check(login)

    return command


class _Place:
    """The place where the login is stored, and the permitted logins."""

    def __init__(self, plugin: PluginContext) -> None:
        self.policy = LoginPolicy.of(plugin.config)
        self.storage = LoginStorage(plugin.codex_home, store_mode(plugin.config))
        self._mode = store_mode(plugin.config)
        self._environ = plugin.environ

    def keep(self, login: StoredLogin) -> None:
        """Store a login."""
        self._check_kept()
        self.storage.save(login)

    def by_token(self, token: str) -> StoredLogin:
        """Return the login with an access token, which is verified."""
        from codex_lib_model_client.login.access import access_token
        from codex_lib_model_client.login.agent_identity import identity_of
        from codex_lib_model_client.login.tokens import AgentTokens

        if isinstance(access_token(token, self._environ, self.policy), AgentTokens):
            self.policy.check_account(identity_of(token, self._environ).account)
            return StoredLogin.of_agent(token)
        self.policy.check_account(whoami(token, self._environ).text("chatgpt_account_id"))
        return StoredLogin.of_personal_token(token)

    def log_in(self, issuer: str, client_id: str, timeout_s: float, *, by_device: bool) -> None:
        """Log in with ChatGPT, and store the tokens."""
        from codex_lib_model_client.login.flow import Issuer

        self._check_kept()
        check_url(issuer)
        server = Issuer(issuer, client_id)
        if by_device:
            from codex_plugin_login.device import device_login

            self.storage.save(device_login(server, self.policy, echo=_tell, timeout_s=timeout_s))
            return
        from codex_plugin_login.browser import browser_login

        asyncio.run(
            browser_login(server, self.storage, self.policy, echo=_tell, environ=self._environ, timeout_s=timeout_s)
        )

    def _check_kept(self) -> None:
        if self._mode == "ephemeral":
            raise LoginError(
                'with cli_auth_credentials_store = "ephemeral", a login ends with this command',
                reason="unsupported",
                hint="Set CODEX_API_KEY or CODEX_ACCESS_TOKEN for a run, or choose another store.",
            )


def _tell(text: str) -> None:
    click.echo(text, err=True)


def _secret(what: str, source: str, option: str) -> str:
    """Read a secret from stdin.

    Raises:
        LoginError: The secret is missing or malformed.
    """
    hint = f"Try piping it, e.g. `{source} | codex-framework login {option}`."
    if sys.stdin is None or sys.stdin.isatty():
        fact = f"{option} expects the {what} on stdin"
        raise LoginError(fact, reason="missing", hint=hint)
    click.echo(f"Reading {what} from stdin...", err=True)
    try:
        raw = os.read(sys.stdin.fileno(), 0) + sys.stdin.buffer.read(_LONGEST_SECRET + 1)
        text = raw.removeprefix(codecs.BOM_UTF8).decode("ascii").strip()
    except (OSError, ValueError):
        text = "\0"
    if not text:
        raise LoginError(f"No {what} provided via stdin.", reason="missing", hint=hint)
    if len(text) > _LONGEST_SECRET or not text.isprintable() or " " in text:
        fact = f"what came on stdin is not one {what}"
        raise LoginError(fact, reason="missing", hint="Pipe exactly one line without spaces.")
    return text
