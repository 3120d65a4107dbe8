"""The notifier ``webhook NAME``: passes notifications to a thread that posts them."""

from __future__ import annotations

import threading

from codex_framework import Notification, Notifier
from codex_plugin_notify.component import Reports
from codex_plugin_notify.delivery import Delivery, Message
from codex_plugin_notify.filtering import Filter
from codex_plugin_notify.target import Target
from codex_plugin_notify.texts import payload

__all__ = ["WebhookNotifier"]


class WebhookNotifier(Notifier):
    """Queues notifications for a webhook.

    Args:
        name: The name of its table.
        content: Whether prompts, messages, questions and errors are sent.
    """

    def __init__(self, name: str, target: Target, *, content: bool, wanted: Filter, reports: Reports) -> None:
        self.name = f"webhook {name}"
        self._target = target
        self._content = content
        self._wanted = wanted
        self._reports = reports
        self._lock = threading.Lock()
        self._delivery: Delivery | None = None

    def notify(self, notification: Notification) -> None:
        """Queue a notification. The thread is started for the first one."""
        if not self._wanted.passes(notification):
            return
        fields = payload(notification, content=self._content)
        if notification.duration_s is not None:
            fields["duration-ms"] = int(notification.duration_s * 1000)
        with self._lock:
            if self._delivery is None:
                self._delivery = Delivery(f"the webhook {self.name[8:]!r}", self._target, self._reports)
            self._delivery.add(Message.of(fields, notification.thread_id))

    def flush(self) -> None:
        """Let the thread post the remaining messages within its time limit, and end it.

        Raises:
            PluginError: A message could not be posted, or a failure was unreported.
        """
        with self._lock:
            delivery, self._delivery = self._delivery, None
        if delivery is not None:
            delivery.close()
        self._reports.finish()
