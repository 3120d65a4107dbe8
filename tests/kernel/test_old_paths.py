"""Modules that have moved can be imported by their old names for one release."""

from __future__ import annotations

import importlib
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

from codex_framework.old_paths import MOVED, new_name

ROOT = Path(__file__).parents[2]
IN_PACKAGE = {
    "codex_framework": """
        plugins
    """,
    "codex_framework.plugins": """
        collection constraining context declarations discovery exec_commands exec_options
        files hook_checks instances interceptor_table late loaded loading notes offer_values offers
        own_hooks registration registry report requirements role_checks selection
    """,
    "codex_framework.toolkit": """
        browsers confinement https keyrings local_servers login model_server small_replies standalone
    """,
    "codex_framework.toolkit.confinement": """
        launching mounts paths placeholders seccomp syscall_numbers
    """,
    "codex_framework.toolkit.login": """
        access agent_identity claims errors issuer policy storage stored tokens
    """,
    "codex_framework.toolkit.model_server": """
        addresses advice ahead certificates compression connection credentials dialing error_objects
        exchanges faults functions headers hiding http_transport known_roots losses measuring message_client
        message_texts opening private_data proxies secure_socket server_client socks splitter sse table
        token_command token_source transport transport_errors websocket
    """,
}
OLD = [f"{package}.{name}" for package, names in IN_PACKAGE.items() for name in names.split()]


@pytest.fixture(autouse=True)
def _old_names_are_unknown():
    """Let each test import old names for the first time, and leave no trace of them."""
    finders = sys.meta_path[:]
    forget_old_names()
    yield
    forget_old_names()
    sys.meta_path[:] = finders


def forget_old_names():
    for name in OLD:
        sys.modules.pop(name, None)


@pytest.mark.parametrize("old", OLD)
def test_an_old_name_is_the_module_itself_and_warns_with_the_new_name(old):
    with pytest.warns(DeprecationWarning, match="has moved") as warned:
        module = importlib.import_module(old)
    new = new_name(old)
    assert module is importlib.import_module(new)
    assert module.__name__ == module.__spec__.name == new
    assert str(warned[-1].message) == f"{old} has moved and will be removed: import {new}"


def test_the_warning_names_the_line_that_imports():
    with pytest.warns(DeprecationWarning, match="has moved") as warned:
        import codex_framework.toolkit.login.errors  # noqa: F401
    assert {warning.filename for warning in warned} == {__file__}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_every_way_to_import_gives_the_same_classes():
    import codex_framework.toolkit.model_server.table
    import codex_framework.toolkit.model_server.transport_errors as by_alias
    import codex_lib_confinement.seccomp
    import codex_lib_model_client.https
    import codex_lib_model_client.login.stored
    import codex_lib_model_client.table
    import codex_lib_model_client.transport_errors
    from codex_framework.toolkit import https
    from codex_framework.toolkit.confinement import placeholders, seccomp
    from codex_framework.toolkit.login.stored import StoredLogin

    assert by_alias is codex_lib_model_client.transport_errors
    assert codex_framework.toolkit.model_server.table is codex_lib_model_client.table
    assert https is codex_lib_model_client.https
    assert seccomp is codex_lib_confinement.seccomp
    assert placeholders is codex_framework.toolkit.placeholders
    assert StoredLogin is codex_lib_model_client.login.stored.StoredLogin


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_pickles_with_an_old_name_can_be_read():
    from codex_framework.loader import PluginStatus

    pickled = pickle.dumps(PluginStatus.LOADED, protocol=0)
    old = pickled.replace(b"codex_framework.loader.", b"codex_framework.plugins.")
    assert old != pickled
    assert pickle.loads(old) is PluginStatus.LOADED


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_module_that_never_was_is_missing_under_its_old_package():
    with pytest.raises(ModuleNotFoundError) as caught:
        importlib.import_module("codex_framework.toolkit.login.nowhere")
    assert caught.value.name == "codex_framework.toolkit.login.nowhere"


def test_the_kernel_and_a_provider_use_no_old_name():
    code = "import codex_framework.kernel, codex_plugin_openai, sys; print('codex_framework.old_paths' in sys.modules)"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_our_own_code_and_docs_use_no_old_name():
    pattern = re.compile("|".join(rf"{re.escape(old)}\b" for old in MOVED))
    folders = ("codex_framework", "plugins", "contrib", "benchmarks", "docs", "tests")
    found = {
        str(path.relative_to(ROOT))
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".md", ".in", ".toml") and pattern.search(path.read_text(encoding="utf-8"))
    }
    assert found == {"codex_framework/old_paths.py", "tests/kernel/test_old_paths.py"}
