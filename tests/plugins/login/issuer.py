"""An issuer of ChatGPT's logins on loopback: authorization codes with PKCE, device codes, refreshes and revocation."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlencode, urlsplit

import attrs

__all__ = ["Issuer", "Seen", "jwt"]


@attrs.frozen
class Seen:
    """A request that the issuer received.

    Attributes:
        form: The fields of a form or of a JSON object.
    """

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    form: Mapping[str, Any]


def jwt(**claims: Any) -> str:
    """A token with these claims. Its signature is none."""

    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    return f"{part({'alg': 'none', 'typ': 'JWT'})}.{part(claims)}.{part('signature')}"


class Issuer:
    """The issuer. Use it as a context manager.

    Attributes:
        seen: Every request, in order.
        answers: By path: what to answer instead, as a function from the request to a status and a body.
        refused: Whether ``/oauth/authorize`` sends the browser back with an error.
        pending: How often ``/deviceauth/token`` says that the user has not entered the code yet.
        used: Refresh tokens that have been used.
        lifetime_s: How long access tokens are valid.
    """

    def __init__(self, *, account: str = "acct-1", plan: str = "plus", lifetime_s: float = 3600.0) -> None:
        self.seen: list[Seen] = []
        self.answers: dict[str, Callable[[Seen], tuple[int, Any]]] = {}
        self.refused = ""
        self.pending = 1
        self.used: list[str] = []
        self.lifetime_s = lifetime_s
        self.account = account
        self.plan = plan
        self.serial = 0
        self._codes: dict[str, tuple[str, str]] = {}
        self._current = ""
        self._lock = threading.Lock()
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                issuer._serve(self)

            do_POST = do_GET

            def log_message(self, *_: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True, kwargs={"poll_interval": 0.05}).start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()

    def tokens(self, **more: Any) -> dict[str, str]:
        """Fresh tokens, as the token endpoint gives them."""
        self.serial += 1
        self._current = f"refresh-{self.serial}-canary"
        auth = {"chatgpt_account_id": self.account, "chatgpt_plan_type": self.plan, "chatgpt_user_id": "user-1"}
        claims = {
            "email": "a@example.com",
            "https://api.openai.com/auth": auth,
            "exp": int(time.time() + self.lifetime_s),
        }
        return {
            "id_token": jwt(**claims),
            "access_token": jwt(serial=self.serial, **claims),
            "refresh_token": self._current,
            **more,
        }

    def paths(self) -> list[str]:
        return [each.path for each in self.seen]

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        length = int(handler.headers.get("content-length") or 0)
        seen = _seen(handler, handler.rfile.read(length) if length else b"")
        with self._lock:
            self.seen.append(seen)
            status, body = self._answer(seen)
        location = body.pop("location", None) if isinstance(body, dict) else None
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        handler.send_response(status)
        if location:
            handler.send_header("location", location)
        handler.send_header("content-type", "application/json")
        handler.send_header("content-length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    def _answer(self, seen: Seen) -> tuple[int, Any]:
        given = self.answers.get(seen.path)
        if given is not None:
            return given(seen)
        match seen.path:
            case "/oauth/authorize":
                return self._authorize(seen.query)
            case "/oauth/token":
                return self._token(seen.form)
            case "/oauth/revoke":
                return 200, {}
            case "/api/accounts/deviceauth/usercode":
                return 200, {"device_auth_id": "device-1", "user_code": "ABCD-1234", "interval": "0"}
            case "/api/accounts/deviceauth/token":
                return self._device()
            case _:
                return 404, {"error": "not_found"}

    def _authorize(self, query: Mapping[str, str]) -> tuple[int, Any]:
        code = f"code-{len(self._codes) + 1}"
        self._codes[code] = (query["code_challenge"], query["redirect_uri"])
        answer = {"error": self.refused} if self.refused else {"code": code}
        return 302, {"location": f"{query['redirect_uri']}?{urlencode({**answer, 'state': query['state']})}"}

    def _device(self) -> tuple[int, Any]:
        if self.pending > 0:
            self.pending -= 1
            return 403, {}
        verifier = "v" * 64
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        self._codes["device-code"] = (challenge, f"{self.url}/deviceauth/callback")
        return 200, {"authorization_code": "device-code", "code_challenge": challenge, "code_verifier": verifier}

    def _token(self, form: Mapping[str, Any]) -> tuple[int, Any]:
        if form.get("grant_type") == "refresh_token":
            token = form.get("refresh_token", "")
            if token in self.used:
                return 401, {"error": {"code": "refresh_token_reused", "message": "used"}}
            if token != self._current:
                return 401, {"error": {"code": "refresh_token_invalidated", "message": "unknown"}}
            self.used.append(token)
            return 200, self.tokens()
        challenge, redirect = self._codes.pop(form.get("code", ""), ("", ""))
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        fits = base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == challenge
        if not fits or form.get("redirect_uri") != redirect or form.get("grant_type") != "authorization_code":
            return 400, {"error": "invalid_grant", "error_description": "the verifier does not fit"}
        return 200, self.tokens()


def _seen(handler: BaseHTTPRequestHandler, body: bytes) -> Seen:
    target = urlsplit(handler.path)
    query = {name: values[0] for name, values in parse_qs(target.query).items()}
    text = body.decode("utf-8", "replace")
    form: Any = {name: values[0] for name, values in parse_qs(text).items()}
    if text.startswith("{"):
        form = json.loads(text)
    headers = {name.lower(): value for name, value in handler.headers.items()}
    return Seen(handler.command, target.path, query, headers, form)
