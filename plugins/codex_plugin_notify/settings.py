"""The settings of the plugin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from codex_framework import Value

__all__ = ["KINDS", "Desktop", "Kind", "Program", "Settings", "Terminal", "Webhook"]

Kind = Literal["agent-turn-complete", "approval-requested", "turn-failed", "budget-reached"]

KINDS: tuple[Kind, ...] = ("agent-turn-complete", "approval-requested", "turn-failed", "budget-reached")


class Program(Value, kw_only=True):
    """The table ``[framework.plugins.notify.program]``, which is about the program of ``notify``.

    Attributes:
        kinds: The notifications for which the program is run. Codex has the first only.
        min_turn_s: Shortest turn whose end causes a notification, in seconds.
        timeout_s: Time limit of one run in seconds. When it expires, the program is killed.
    """

    kinds: tuple[Kind, ...] = KINDS[:1]
    min_turn_s: float = 0.0
    timeout_s: float = 30.0


class Terminal(Value, kw_only=True):
    """The table ``[framework.plugins.notify.terminal]``, which adds to ``tui.notifications``.

    Attributes:
        min_turn_s: Shortest turn whose end causes a notification, in seconds.
    """

    min_turn_s: float = 0.0


class Desktop(Value, kw_only=True):
    """The table ``[framework.plugins.notify.desktop]``. Without it nothing is shown on the desktop.

    Attributes:
        kinds: The notifications that are shown.
        min_turn_s: Shortest turn whose end causes a notification, in seconds.
        content: Whether the model's message, the question or the error is shown, or only what kind of notification it is.
    """

    kinds: tuple[Kind, ...] = KINDS
    min_turn_s: float = 0.0
    content: bool = True


class Webhook(Value, kw_only=True):
    """A table ``[framework.plugins.notify.webhooks.NAME]``.

    Attributes:
        url: The URL. Omit it if it contains a secret, and set ``url_env_var``.
        url_env_var: The variable that contains the URL.
        secret_env_var: The variable that contains the secret for signatures. Without it requests are not signed.
        http_headers: Further headers of the requests.
        env_http_headers: Further headers, each with the variable that contains its value.
        kinds: The notifications that are sent.
        min_turn_s: Shortest turn whose end causes a notification, in seconds.
        content: Whether prompts, messages, questions and errors are sent.
        timeout_s: Time limit of one request in seconds.
        retry_s: How long a notification is sent again after failures, in seconds.
        close_timeout_s: How long the end of the kernel waits for unsent messages, in seconds; at most 4.
    """

    url: str = ""
    url_env_var: str = ""
    secret_env_var: str = ""
    http_headers: Mapping[str, str] = {}
    env_http_headers: Mapping[str, str] = {}
    kinds: tuple[Kind, ...] = KINDS
    min_turn_s: float = 0.0
    content: bool = True
    timeout_s: float = 10.0
    retry_s: float = 60.0
    close_timeout_s: float = 3.0


class Settings(Value, kw_only=True):
    """The table ``[framework.plugins.notify]``.

    Attributes:
        program: Filters and the time limit of the program that ``notify`` names: ``kinds``, ``min_turn_s``, ``timeout_s``.
        terminal: A filter of the terminal's notifications, which ``tui.notifications`` turns on: ``min_turn_s``.
        desktop: Notifications on the desktop: ``kinds``, ``min_turn_s``, ``content``. Without this table, they are off.
        webhooks: Webhooks, by name: ``url`` or ``url_env_var``, ``secret_env_var``, ``kinds`` and others.
    """

    program: Program | None = None
    terminal: Terminal | None = None
    desktop: Desktop | None = None
    webhooks: Mapping[str, Webhook] = {}
