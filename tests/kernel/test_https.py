"""Loading of httpx and of certificates, for plugins."""

from __future__ import annotations

import ssl
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import certifi
import pytest

from codex_lib_model_client.https import httpx_module, preload, tls_context

FIRST = """
import sys
from codex_lib_model_client.https import httpx_module
assert "httpx" not in sys.modules and "ssl" not in sys.modules
module = httpx_module()
assert module is sys.modules["httpx"] is httpx_module()
assert "httpx._main" not in sys.modules and "click" not in sys.modules
"""

SECOND = """
import sys
import httpx
from codex_lib_model_client.https import httpx_module
main = sys.modules.get("httpx._main")
assert httpx_module() is httpx
assert sys.modules.get("httpx._main") is main
"""

FAILING = """
import sys
sys.modules["httpx"] = None
from codex_lib_model_client.https import httpx_module
try:
    httpx_module()
except ImportError:
    print("told", "httpx._main" in sys.modules)
"""


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_httpx_comes_without_its_command_line() -> None:
    run(FIRST)


def test_httpx_that_is_there_already_is_used() -> None:
    run(SECOND)
    assert httpx_module() is sys.modules["httpx"]


def test_a_missing_httpx_is_an_import_error() -> None:
    assert run(FAILING) == "told False\n"


def test_certificates_come_from_the_environment_or_from_certifi(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Path(certifi.where()).read_text().partition("-----END CERTIFICATE-----\n")
    file = tmp_path / "one.pem"
    file.write_text(one[0] + one[1])
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    default = tls_context()
    assert len(default.get_ca_certs()) > 10
    assert (default.verify_mode, default.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert tls_context() is default
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    assert tls_context().get_ca_certs() == []  # a folder is searched when a certificate is needed
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    assert len(tls_context().get_ca_certs()) == 1
    assert tls_context({}) is default
    assert tls_context({"SSL_CERT_FILE": str(file)}) is tls_context()
    monkeypatch.setenv("SSL_CERT_FILE", "")
    monkeypatch.setenv("SSL_CERT_DIR", "")
    assert tls_context() is default


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_certificates_that_cannot_be_loaded_are_an_error(
    content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "wrong.pem"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    with pytest.raises(OSError):  # noqa: PT011
        tls_context()


def test_threads_that_want_the_same_certificates_at_once_load_them_once(tmp_path: Path) -> None:
    file = tmp_path / "all.pem"
    file.write_text(Path(certifi.where()).read_text())
    environ, ready = {"SSL_CERT_FILE": str(file)}, threading.Barrier(5)

    def load(_: int) -> int:
        ready.wait()
        return id(tls_context(environ))

    preload(environ)
    with ThreadPoolExecutor(5) as threads:
        assert set(threads.map(load, range(5))) == {id(tls_context(environ))}


def test_a_preload_of_wrong_certificates_is_silent(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    preload({"SSL_CERT_FILE": str(tmp_path / "none.pem")})
    for thread in threading.enumerate():
        if thread.name == "preload":
            thread.join(20)
    assert capfd.readouterr().err == ""
