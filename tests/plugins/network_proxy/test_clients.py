"""Programs as commands use them, by nothing but the environment that a gate gives them."""

from __future__ import annotations

import asyncio
import os
import shutil
import ssl
import subprocess
import sys

import pytest

CURL = pytest.mark.skipif(shutil.which("curl") is None, reason="no curl here")


async def run(gate, *argv, cwd=None, **extra):
    """Status, standard output and standard error of a command."""
    env = {"PATH": os.environ["PATH"], "HOME": str(cwd or "/nonexistent"), **gate.gate.environment(gate.ports), **extra}
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*map(str, argv), env=env, cwd=cwd, stdout=pipe, stderr=pipe)
    stdout, stderr = await process.communicate()
    return process.returncode, stdout, stderr


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    if shutil.which("openssl") is None:
        pytest.skip("no openssl here")
    folder = tmp_path_factory.mktemp("tls")
    argv = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "1",
    ]
    argv += ["-keyout", "key.pem", "-out", "cert.pem", "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.2"]
    done = subprocess.run(argv, cwd=folder, capture_output=True)
    if done.returncode:
        pytest.skip("this openssl makes no certificate")
    return folder


async def tls_origin(net, certificate):
    origin = await net.origin()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    server = await asyncio.start_server(origin.serve, "127.0.0.2", 0, ssl=context)
    return origin, server, server.sockets[0].getsockname()[1]


@CURL
async def test_curl_gets_posts_and_is_refused(net, host):
    origin = await net.origin()
    gate = await net.open_gate()
    url = f"http://{host}:{origin.port}"
    status, out, _ = await run(gate, "curl", "-s", f"{url}/a", f"{url}/b")
    assert (status, out) == (0, b"GET /a\nGET /b\n")
    assert origin.connections == 1
    status, out, _ = await run(gate, "curl", "-s", "-d", "x" * 3000, f"{url}/p")
    assert out == b"POST /p\n" + b"x" * 3000
    status, out, _ = await run(gate, "curl", "-s", f"{url}/chunked", "--http1.0")
    assert out == b"one,two,three"
    status, out, _ = await run(gate, "curl", "-s", "-w", "%{http_code}", "http://example.com/")
    assert out.endswith(b"permissions.NAME.network.domains.\n403")
    status, out, err = await run(gate, "curl", "-sS", "https://example.com/")
    assert status != 0
    assert b"403" in err


@CURL
async def test_curl_reaches_a_tls_server_through_a_tunnel(net, host, certificate):
    origin, server, port = await tls_origin(net, certificate)
    async with server:
        for rules in ({"domains": {host: "allow"}}, {"allow_local_binding": True, "domains": {"*": "allow"}}):
            gate = await net.gate(**rules)
            status, out, err = await run(
                gate, "curl", "-sS", "--cacert", certificate / "cert.pem", f"https://{host}:{port}/x"
            )
            assert (status, out) == (0, b"GET /x\n"), err
        gate = await net.gate(domains={"*": "allow"})
        status, _, err = await run(gate, "curl", "-sS", "-k", f"https://{host}:{port}/x")
        assert status != 0
        assert len(origin.seen) == 2
        assert gate.reasons == ["blocked-by-allowlist"]


@CURL
async def test_curl_goes_by_socks_where_it_is_told_to(net, host):
    origin = await net.origin()
    gate = await net.open_gate()
    proxy = f"127.0.0.1:{gate.ports.socks}"
    status, out, err = await run(gate, "curl", "-sS", "--socks5-hostname", proxy, f"http://{host}:{origin.port}/s")
    assert (status, out) == (0, b"GET /s\n"), err
    status, _, err = await run(gate, "curl", "-sS", "--socks5-hostname", proxy, "http://example.com/")
    assert status == 97
    assert gate.reasons == ["blocked-by-allowlist"]


async def test_pythons_urllib_gets_and_is_told_why_not(net, host):
    origin = await net.origin()
    gate = await net.open_gate()
    script = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read())"
    status, out, err = await run(gate, sys.executable, "-c", script, f"http://{host}:{origin.port}/u")
    assert (status, out) == (0, b"b'GET /u\\n'\n"), err
    for url in ("http://example.com/", "https://example.com/"):
        status, _, err = await run(gate, sys.executable, "-c", script, url)
        assert status == 1
        assert b"403 Forbidden (blocked-by-allowlist)" in err or b"403: Forbidden (blocked-by-allowlist)" in err


async def test_httpx_gets_over_http_and_tls(net, host, certificate):
    origin, server, port = await tls_origin(net, certificate)
    plain = await net.origin()
    script = (
        "import sys, httpx\n"
        "with httpx.Client(verify=sys.argv[1]) as client:\n"
        "    for url in sys.argv[2:]: print(client.get(url).text, end='')\n"
    )
    async with server:
        gate = await net.gate(domains={host: "allow"}, enable_socks5=False)
        urls = [f"http://{host}:{plain.port}/h", f"https://{host}:{port}/s", f"https://{host}:{port}/t"]
        status, out, err = await run(gate, sys.executable, "-c", script, certificate / "cert.pem", *urls)
        assert (status, out) == (0, b"GET /h\nGET /s\nGET /t\n"), err
    assert origin.connections == 1


QUIET = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}


@pytest.fixture
def served(tmp_path):
    """A folder with a repository that can be served as files."""
    if shutil.which("git") is None:
        pytest.skip("no git here")
    source, folder = tmp_path / "source", tmp_path / "served"
    who = {f"GIT_{role}_{what}": "x@y" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    env = {**os.environ, **QUIET, **who}
    for argv in (
        ["git", "init", "-q", source],
        ["git", "-C", source, "commit", "-q", "--allow-empty", "-m", "First"],
        ["git", "clone", "-q", "--bare", source, folder / "repository"],
        ["git", "-C", folder / "repository", "update-server-info"],
    ):
        subprocess.run(argv, env=env, check=True, capture_output=True)
    return folder


async def test_git_clones_over_http(net, host, served, tmp_path):
    async def serve(reader, writer):
        while head := (await reader.readuntil(b"\r\n\r\n")).decode():
            path = served / head.split()[1].partition("?")[0].lstrip("/")
            body = path.read_bytes() if path.is_file() else b""
            status = "200 OK" if path.is_file() else "404 Not Found"
            writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)

    gate = await net.open_gate()
    url = f"http://{host}:{await net.server(serve)}/repository"
    status, _, err = await run(gate, "git", "clone", "-q", url, tmp_path / "clone", **QUIET)
    assert status == 0, err
    _, out, _ = await run(gate, "git", "-C", tmp_path / "clone", "log", "--format=%s", **QUIET)
    assert out == b"First\n"
    status, _, err = await run(gate, "git", "clone", "-q", "http://example.com/x", tmp_path / "other", **QUIET)
    assert status != 0
    assert b"403" in err


@pytest.mark.skipif(shutil.which("node") is None, reason="no node here")
async def test_node_asks_by_request_and_by_tunnel(net, host):
    origin = await net.origin()
    gate = await net.open_gate()
    script = """
        const http = require('http');
        const proxy = new URL(process.env.HTTP_PROXY), [host, port] = process.argv.slice(1);
        http.get({host: proxy.hostname, port: proxy.port, path: `http://${host}:${port}/n`,
                  headers: {Host: `${host}:${port}`}}, answer => {
            answer.on('data', data => process.stdout.write(data)).on('end', () => {
                http.request({host: proxy.hostname, port: proxy.port, method: 'CONNECT', path: `${host}:${port}`})
                    .on('connect', (answer, socket) => {
                        http.get({createConnection: () => socket, path: '/t', headers: {Host: host}}, inner => {
                            inner.pipe(process.stdout); inner.on('end', () => socket.destroy());
                        });
                    }).end();
            });
        });
    """
    status, out, err = await run(gate, "node", "-e", script, host, origin.port)
    assert (status, out) == (0, b"GET /n\nGET /t\n"), err


@CURL
async def test_what_a_command_has_started_itself_it_reaches_by_itself(net):
    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nmine")

    port = await net.server(serve, host="127.0.0.1")
    gate = await net.gate()
    for name in ("localhost", "127.0.0.1"):
        status, out, _ = await run(gate, "curl", "-s", f"http://{name}:{port}/")
        assert (status, out) == (0, b"mine")
    assert gate.gate.blocked == ()
