"""Who may configure notifiers, what is wrong is said, and nothing is loaded that is not configured."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from codex_framework.config import load_config
from codex_framework.contract.errors import ConfigError
from codex_framework.kernel import Kernel
from codex_framework.loader import PluginStatus
from codex_framework.testing import check_component, check_notifier
from codex_plugin_notify.component import NotifyComponent


def registry(config: str, home: Path, cwd: Path, env: dict[str, str] | None = None, *overrides: str) -> Any:
    (home / "config.toml").write_text(config)
    environ = {"CODEX_HOME": str(home), "PATH": os.defpath, "HOME": str(home), **(env or {})}

    async def made() -> Any:
        async with await Kernel.create(
            load_config(cwd=cwd, environ=environ, overrides=overrides), environ=environ
        ) as kernel:
            return kernel.registry, kernel.config

    return asyncio.run(made())


def report(config: str, home: Path, cwd: Path, env: dict[str, str] | None = None, *overrides: str) -> Any:
    found, _ = registry(config, home, cwd, env, *overrides)
    (own,) = [each for each in found.reports if each.name == "notify"]
    return own


ALL = """
notify = ["true"]
tui.notifications = true
[framework.plugins.notify.desktop]
[framework.plugins.notify.webhooks.ops]
url = "http://127.0.0.1:9/x"
[framework.plugins.notify.webhooks."the other"]
url = "http://127.0.0.1:9/y"
"""


def test_each_is_offered_if_it_is_configured(codex_home: Path, workspace: Path):
    whole = report(ALL, codex_home, workspace)
    assert (whole.status, whole.problems) == (PluginStatus.LOADED, ())
    assert whole.contributes["notifiers"] == ("program", "terminal", "desktop", "webhook ops", "webhook the other")
    assert whole.contributes["components"] == ("notify",)


def test_nothing_is_offered_without_settings(codex_home: Path, workspace: Path):
    for config in ("", "notify = []", "tui.notifications = false", "[tui]\ntheme = 'x'", "[framework.plugins.notify]"):
        assert "notifiers" not in report(config, codex_home, workspace).contributes


def test_settings_on_the_command_line_count(codex_home: Path, workspace: Path):
    found = report("", codex_home, workspace, None, "notify=['true']", "tui.notifications=true")
    assert found.contributes["notifiers"] == ("program", "terminal")


def trusting(workspace: Path, settings: str, own: str = "") -> str:
    """Write a project's own file, and return a configuration that trusts the project."""
    (workspace / ".git").mkdir()
    (workspace / ".codex").mkdir()
    (workspace / ".codex" / "config.toml").write_text(settings)
    return f'{own}\n[projects."{workspace}"]\ntrust_level = "trusted"\n'


def test_a_trusted_project_cannot_name_a_program(codex_home: Path, workspace: Path):
    config = trusting(workspace, 'notify = ["touch", "x"]\n')
    found, loaded = registry(config, codex_home, workspace)
    assert found.notifiers == ()
    assert any("`notify` is ignored, because a project's own file cannot set it" in text for text in loaded.warnings)


def test_a_trusted_project_cannot_replace_the_users_program(codex_home: Path, workspace: Path):
    config = trusting(workspace, 'notify = ["touch", "x"]\n', 'notify = ["/bin/true"]')
    found, _ = registry(config, codex_home, workspace)
    ((_, notifier),) = found.notifiers
    assert notifier._argv == ("/bin/true",)


@pytest.mark.parametrize(
    "table",
    [
        "[framework.plugins.notify.webhooks.theirs]\nurl = 'http://127.0.0.1:9/x'\n",
        "[framework.plugins.notify.desktop]\n",
        "[framework.plugins.notify.program]\ntimeout_s = 0.0\n",
    ],
)
def test_a_trusted_project_cannot_have_a_table(codex_home: Path, workspace: Path, table: str):
    config = trusting(workspace, table, 'notify = ["/bin/true"]')
    with pytest.raises(ConfigError, match="a project's own file cannot configure the plugin 'notify'"):
        report(config, codex_home, workspace)


def test_a_project_does_not_decide_about_the_terminal(codex_home: Path, workspace: Path):
    config = trusting(workspace, 'tui.notifications = true\ntui.notification_method = "osc9"\n')
    assert "notifiers" not in report(config, codex_home, workspace).contributes
    (workspace / ".codex" / "config.toml").write_text("tui.notifications = false\n")
    own = report(f"tui.notifications = true\n{config}", codex_home, workspace)
    assert own.contributes["notifiers"] == ("terminal",)


def test_an_untrusted_project_decides_nothing(codex_home: Path, workspace: Path):
    trusting(workspace, ALL)
    assert "notifiers" not in report("", codex_home, workspace).contributes


def test_a_table_of_the_terminal_is_merged_by_key(codex_home: Path, workspace: Path):
    found, _ = registry("tui.notifications = true", codex_home, workspace, None, 'tui.notification_method="bel"')
    ((_, notifier),) = found.notifiers
    assert notifier._method == "bel"


HOOK = "[framework.plugins.notify.webhooks.ops]\n"
URL = f'{HOOK}url = "http://127.0.0.1:9/canary"\n'


@pytest.mark.parametrize(
    ("config", "env", "fact"),
    [
        ("tui.notifications = 'yes'", {}, "`tui.notifications` must be true, false or a list of strings"),
        ("tui.notifications = [1]", {}, "`tui.notifications` must be true, false or a list of strings"),
        ("[tui]\nnotifications = true\nnotification_method = 'osc8'", {}, "must be auto, osc9 or bel"),
        ("[tui]\nnotifications = true\nnotification_condition = 1", {}, "must be unfocused or always"),
        ("[framework.plugins.notify]\nprogramme = {}", {}, "no setting 'programme'"),
        ("[framework.plugins.notify.program]\nkinds = ['done']", {}, "kinds"),
        (
            "[framework.plugins.notify.program]\ntimeout_s = -1.0",
            {},
            "program.timeout_s` is -1, not a number of seconds",
        ),
        (
            "[framework.plugins.notify.desktop]\nmin_turn_s = nan",
            {},
            "desktop.min_turn_s` is nan, not a number of seconds",
        ),
        (f"{URL}retry_s = inf", {}, "webhooks.ops.retry_s` is inf, not a number of seconds"),
        (HOOK, {}, "needs either url or url_env_var"),
        (f'{URL}url_env_var = "X"', {"X": "http://canary"}, "needs either url or url_env_var"),
        (f'{HOOK}url = "ftp://canary/x"', {}, "webhooks.ops.url` is not a URL"),
        (f'{HOOK}url = "http://"', {}, "webhooks.ops.url` is not a URL"),
        (f'{HOOK}url = "http://a b/canary"', {}, "webhooks.ops.url` is not a URL"),
        (f'{HOOK}url_env_var = "X"', {}, "names the variable X, which is not set"),
        (f'{HOOK}url_env_var = "X"', {"X": " "}, "names the variable X, which is empty"),
        (f'{HOOK}url_env_var = "X"', {"X": "canary"}, "the variable X is not a URL"),
        (f'{URL}secret_env_var = "S"', {}, "secret_env_var` names the variable S, which is not set"),
        (f'{URL}secret_env_var = "S"', {"S": "whsec_canary!"}, "begins with whsec_, but its rest is not base64"),
        (f'{URL}http_headers = {{ Host = "canary" }}', {}, "sets the header 'host', which cannot be set"),
        (f'{URL}http_headers = {{ Webhook-Id = "canary" }}', {}, "sets the header 'webhook-id', which cannot be set"),
        (f'{URL}http_headers = {{ "a b" = "canary" }}', {}, "sets the header 'a b', which cannot be set"),
        (f'{URL}env_http_headers = {{ A = "H" }}', {"H": "canary\r\nb: c"}, "characters that a header cannot contain"),
        (f'{URL}env_http_headers = {{ A = "H" }}', {}, "names the variable H, which is not set"),
    ],
)
def test_what_is_wrong_is_said(codex_home: Path, workspace: Path, config: str, env: dict[str, str], fact: str):
    own = report(config, codex_home, workspace, env)
    (problem,) = own.problems
    assert fact in problem.fact
    assert problem.hint
    assert "canary" not in problem.fact + problem.hint
    assert "notifiers" not in own.contributes


def test_secrets_are_not_in_the_repr(codex_home: Path, workspace: Path):
    config = f'{URL}secret_env_var = "S"\nenv_http_headers = {{ A = "H" }}'
    found, _ = registry(config, codex_home, workspace, {"S": "canary-secret", "H": "canary-header"})
    ((_, notifier),) = found.notifiers
    assert "canary" not in repr(notifier._target)


def test_every_notifier_keeps_to_its_role(codex_home: Path, workspace: Path, hook: Any, tmp_path: Path):
    config = ALL.replace("http://127.0.0.1:9/x", hook.url).replace("http://127.0.0.1:9/y", hook.url)
    (tmp_path / "notify-send").symlink_to("/bin/true")
    found, _ = registry(config, codex_home, workspace, {"PATH": f"{tmp_path}:{os.defpath}"})
    assert len(found.notifiers) == 5
    for _, notifier in found.notifiers:
        check_notifier(notifier)
    assert len(hook.posted) == 14


def test_the_component_keeps_to_its_role():
    check_component(NotifyComponent)


def modules(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint(*(name for name in sys.modules if name.startswith(('codex_plugin_notify', 'httpx'))))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True, timeout=60,
        env={"CODEX_HOME": "/", "PATH": os.defpath},
    )  # fmt: skip
    return set(done.stdout.split())


LOAD = "from codex_framework.loader.registry import load_registry; load_registry({})"


def test_without_settings_nothing_is_imported():
    assert modules(LOAD) == {"codex_plugin_notify"}


def test_a_webhook_imports_httpx_with_its_first_notification_only():
    table = "{'framework': {'plugins': {'notify': {'webhooks': {'a': {'url': 'http://x'}}}}}}"
    assert "httpx" not in modules(LOAD.replace("{}", table))
