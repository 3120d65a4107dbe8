"""The notifier: what is posted, to a server on loopback that answers as Slack does, or does not."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from codex_contrib_slack.notifier import SlackNotifier
from codex_contrib_slack.settings import Settings
from codex_contrib_slack.text import message
from codex_framework import Notification
from codex_framework.contract.errors import ConfigError, PluginError
from codex_framework.loader import PluginStatus
from codex_framework.loader.registry import load_registry
from codex_framework.testing import check_notifier, fail, say

Answer = tuple[int, dict[str, str], bytes]


class Slack:
    """A server in Slack's place.

    Attributes:
        posted: The bodies so far.
        answers: The answer to each request, by its number.
    """

    def __init__(self) -> None:
        self.posted: list[Any] = []
        self.answers: Callable[[int], Answer | None] = lambda number: (200, {}, b"ok")
        self.over = threading.Event()
        slack = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                slack.posted.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
                answer = slack.answers(len(slack.posted))
                if answer is None:
                    slack.over.wait(30)
                    return
                status, headers, body = answer
                self.send_response(status)
                for name, value in {**headers, "content-length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self.over.set()
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/services/T0/B0/canary"


@pytest.fixture
def slack() -> Iterator[Slack]:
    made = Slack()
    try:
        yield made
    finally:
        made.close()


def notifier(url: str, **settings: Any) -> SlackNotifier:
    return SlackNotifier(Settings(url_env_var="HOOK", **settings), "slack", {"HOOK": url})


def told(kind: str = "agent-turn-complete", **fields: Any) -> Notification:
    return Notification(type=kind, thread_id="t", turn_id="u", cwd="/work/shop", **fields)


DONE = "*:white_check_mark: Turn complete* in shop"
CONFIG = '[framework.plugins.slack]\nurl_env_var = "HOOK"\n'


def test_the_notifier_keeps_to_its_role(slack):
    check_notifier(notifier(slack.url))


def test_the_plugin_offers_it_if_it_is_configured():
    tables = {"framework": {"plugins": {"slack": {"url_env_var": "HOOK"}}}}
    for config, expected in (({}, {}), (tables, {"notifiers": ("slack",)})):
        registry = load_registry(config, environ={"HOOK": "https://hooks.slack.com/services/x"})
        (report,) = [report for report in registry.reports if report.name == "slack"]
        assert (report.distribution, report.status, report.problems) == ("codex-contrib-slack", PluginStatus.LOADED, ())
        assert {role: names for role, names in report.contributes.items() if role != "settings"} == expected


def test_a_turn_is_posted(run_turn, slack, workspace):
    run_turn("Hello!", [say("Fixed <it> & done.")], config=CONFIG, env={"HOOK": slack.url})
    assert slack.posted == [
        {"text": f"*:white_check_mark: Turn complete* in {workspace.name}\n> Fixed &lt;it&gt; &amp; done."}
    ]


def test_a_turn_that_fails_is_posted_with_a_mention(run_turn, slack, workspace):
    config = f'{CONFIG}mention = "<!here>"\n'
    run_turn("Hello!", [fail("no model\nat all")], config=config, env={"HOOK": slack.url})
    assert slack.posted == [{"text": f"<!here> *:x: Turn failed* in {workspace.name}\n> no model\n> at all"}]


@pytest.mark.parametrize(
    ("notification", "settings", "expected"),
    [
        (told("approval-requested", text="rm?"), {}, "*:raised_hand: Approval requested* in shop\n> rm?"),
        (told("budget-reached", text="3"), {"mention": "<@U1>"}, "<@U1> *:hourglass: Budget reached* in shop\n> 3"),
        (told(last_assistant_message="hi"), {"mention": "<@U1>"}, f"{DONE}\n> hi"),
        (told(last_assistant_message="hi"), {"content": False}, DONE),
        (told(), {}, DONE),
        (told(last_assistant_message="<!here> \x1b[1m<@U9>"), {}, f"{DONE}\n> &lt;!here&gt;  [1m&lt;@U9&gt;"),
    ],
)
def test_the_text(notification, settings, expected):
    assert message(notification, **{"mention": "", "content": True, **settings}) == expected


def test_a_long_text_is_cut():
    assert len(message(told(last_assistant_message="x" * 100_000), mention="", content=True)) < 1600


def test_filters(slack):
    made = notifier(slack.url, kinds=("agent-turn-complete", "approval-requested"), min_turn_s=10.0)
    made.notify(told(duration_s=9.9))
    made.notify(told("turn-failed", duration_s=100.0))
    assert slack.posted == []
    made.notify(told(duration_s=10.0))
    made.notify(told("approval-requested"))
    assert len(slack.posted) == 2


@pytest.mark.parametrize("status", [429, 500, 503])
def test_it_is_posted_again(slack, status):
    slack.answers = lambda number: (status, {"retry-after": "0"}, b"") if number < 3 else (200, {}, b"ok")
    notifier(slack.url).notify(told())
    assert len(slack.posted) == 3


@pytest.mark.parametrize(
    ("answer", "fact"),
    [
        ((404, {}, b"no_team"), "HTTP status 404"),
        ((403, {}, b"invalid_token"), "HTTP status 403"),
        ((302, {"location": "http://127.0.0.1:9/canary"}, b""), "HTTP status 302"),
    ],
)
def test_what_is_refused_is_said(slack, answer, fact):
    slack.answers = lambda number: answer
    with pytest.raises(PluginError, match=f"^Slack did not take a message: {fact}$") as caught:
        notifier(slack.url).notify(told())
    assert caught.value.hint == "Check the variable HOOK and the app in Slack."
    assert len(slack.posted) == 1


def test_a_server_that_hangs_is_given_up(run_turn, slack):
    slack.answers = lambda number: None
    run = run_turn("Hello!", [say("Done.")], config=CONFIG, env={"HOOK": slack.url})
    assert run.final_message == "Done."
    began = time.monotonic()
    with pytest.raises(PluginError, match="no answer in time"):
        notifier(slack.url).notify(told())
    assert time.monotonic() - began < 30


def test_a_server_that_is_gone_is_said_without_its_url():
    with pytest.raises(PluginError) as caught:
        notifier("http://127.0.0.1:1/services/canary").notify(told())
    assert "the server cannot be reached" in str(caught.value)
    assert "canary" not in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize(
    "value", ["", "hooks.slack.com/x", "http://hooks.slack.com/services/canary", "https://", "https://a b/"]
)
def test_a_wrong_variable_is_named(value):
    with pytest.raises(ConfigError, match=r"^the variable HOOK is not ") as caught:
        notifier(value)
    assert "canary" not in f"{caught.value} {caught.value.hint}"
