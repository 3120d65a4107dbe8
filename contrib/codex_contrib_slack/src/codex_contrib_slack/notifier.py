"""The notifier: posts each notification within a time limit, and again if the server asks for that.

The kernel calls it on a separate thread, so it can wait. An exception is reported to the user with the plugin's name, and after
three exceptions the notifier is muted for the thread. So this code only raises an exception that explains the problem.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any

from codex_contrib_slack.settings import Settings
from codex_contrib_slack.text import message
from codex_framework import Notification, Notifier
from codex_framework.contract.errors import ConfigError, PluginError

__all__ = ["SlackNotifier"]

_LIMIT_S = 4.0
"""Time limit of a notification with all attempts. The kernel's is 5 s."""

_PAUSE_S = 0.5
_URL = re.compile(r"https://([^/?#@\s]+)/\S*|http://((?:127\.0\.0\.1|localhost|\[::1\])(?::\d+)?)/\S*")


class SlackNotifier(Notifier):
    """Posts notifications.

    Raises:
        ConfigError: The variable is not set, or contains no URL.
    """

    name = "slack"

    def __init__(self, settings: Settings, plugin: str, environ: Mapping[str, str]) -> None:
        self._settings = settings
        self._plugin = plugin
        self._url = _url(settings.url_env_var, environ)

    def notify(self, notification: Notification) -> None:
        """Post a notification.

        Raises:
            PluginError: It was not accepted.
        """
        settings, took_s = self._settings, notification.duration_s
        if notification.type not in settings.kinds or (took_s is not None and took_s < settings.min_turn_s):
            return
        text = message(notification, mention=settings.mention, content=settings.content)
        body = json.dumps({"text": text}).encode()
        problem = asyncio.run(self._posted(body))
        if problem:
            hint = f"Check the variable {settings.url_env_var} and the app in Slack."
            raise PluginError(self._plugin, f"Slack did not take a message: {problem}", hint=hint)

    async def _posted(self, body: bytes) -> str:
        """Post until the message is accepted. Return the problem, if any, without the URL, which is a secret."""
        import httpx

        problem = "no answer in time"
        try:
            async with asyncio.timeout(_LIMIT_S), httpx.AsyncClient(timeout=_LIMIT_S) as client:
                while True:
                    try:
                        status, wait_s = await _attempt(client, self._url, body)
                    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
                        problem, wait_s = f"the server cannot be reached ({type(error).__name__})", _PAUSE_S
                    else:
                        if status == 200:
                            return ""
                        problem = f"HTTP status {status}"
                        if status != 429 and status < 500:
                            return problem
                    await asyncio.sleep(wait_s)
        except TimeoutError:
            return problem
        except (OSError, ValueError) as error:  # certificates or a proxy that cannot be used
            return f"{type(error).__name__}: check SSL_CERT_FILE, SSL_CERT_DIR and the variables of proxies"


async def _attempt(client: Any, url: str, body: bytes) -> tuple[int, float]:
    """Post once. Return the status, and how long to wait before the next attempt. The answer's body is not read."""
    headers = {"content-type": "application/json"}
    async with client.stream("POST", url, content=body, headers=headers) as response:
        after = response.headers.get("retry-after", "")
        return response.status_code, float(after) if after.isascii() and after.isdigit() else _PAUSE_S


def _url(variable: str, environ: Mapping[str, str]) -> str:
    value = environ.get(variable, "").strip()
    if _URL.fullmatch(value):
        return value
    fact = f"the variable {variable} is {'not an https URL' if value else 'not set'}"
    hint = f"Create an incoming webhook in Slack, and set {variable} to its URL."
    raise ConfigError(fact, key="framework.plugins.slack.url_env_var", hint=hint)
