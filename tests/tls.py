"""Authorities, certificates and servers with TLS on loopback."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

__all__ = ["Authority", "TlsServer"]

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Authority:
    """An authority of our own, or one below another.

    Attributes:
        pem: Its certificate.
    """

    def __init__(self, folder: Path, name: str, above: Authority | None = None) -> None:
        self._folder, self._name = folder, name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._above = above
        issuer, key = (self._subject, self._key) if above is None else (above._subject, above._key)
        self._certificate = _signed(self._subject, self._key, issuer, key, authority=True)
        self.pem = self._certificate.public_bytes(serialization.Encoding.PEM).decode()

    @property
    def der(self) -> bytes:
        return self._certificate.public_bytes(serialization.Encoding.DER)

    def server(self, *names: str) -> ssl.SSLContext:
        """Return the context of a server that has these names. It sends the authorities between it and the first one."""
        key = ec.generate_private_key(ec.SECP256R1())
        leaf = _signed(x509.Name([]), key, self._subject, self._key, names=names or ("127.0.0.1", "localhost"))
        chain = leaf.public_bytes(serialization.Encoding.PEM).decode()
        above: Authority | None = self
        while above is not None and above._above is not None:
            chain, above = chain + above.pem, above._above
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        file = self._folder / f"{self._name}-{'-'.join(names)}.pem"
        file.write_bytes(private + chain.encode())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context


class TlsServer:
    """Answers requests over TLS on loopback.

    Args:
        context: Its certificate, which can be changed.
        port: Its port. 0 means any.
        greet: Called with each connection after its handshake, with its number from 0. Returns whether requests are answered on it.

    Attributes:
        connections: How many connections were accepted.
        requests: The requests that arrived whole.
    """

    def __init__(
        self, context: ssl.SSLContext, port: int = 0, greet: Callable[[ssl.SSLSocket, int], bool] | None = None
    ) -> None:
        self.context = context
        self.connections = 0
        self._failures: list[str] = []
        self._handshakes = 0
        self._change = threading.Condition()
        self.requests: list[bytes] = []
        self._greet = greet
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        self.url = f"https://127.0.0.1:{self.port}/v1"
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> TlsServer:
        self._threads[0].start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(60)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                plain, _ = self._listener.accept()
                plain.settimeout(60)
                plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._threads.append(threading.Thread(target=self._serve, args=(plain, self.connections)))
                self.connections += 1
                self._threads[-1].start()

    @property
    def failures(self) -> list[str]:
        """Why handshakes failed. Waits for the end of those that have begun, which clients may learn first."""
        with self._change:
            assert self._change.wait_for(lambda: self._handshakes >= self.connections, 30)
            return list(self._failures)

    def _end_handshake(self, *failures: str) -> None:
        with self._change:
            self._failures += failures
            self._handshakes += 1
            self._change.notify_all()

    def _serve(self, plain: socket.socket, number: int) -> None:
        with plain:
            try:
                secure = self.context.wrap_socket(plain, server_side=True)
            except OSError as error:
                self._end_handshake(str(error))
                return
            self._end_handshake()
            with secure, contextlib.suppress(OSError):
                if self._greet is None or self._greet(secure, number):
                    while request := _request(secure):
                        self.requests.append(request)
                        secure.sendall(ANSWER)


def _request(secure: ssl.SSLSocket) -> bytes:
    """Return a whole request, or nothing if the client has closed the connection."""
    data = bytearray()
    while b"\r\n\r\n" not in data:
        piece = secure.recv(65_536)
        if not piece:
            return b""
        data += piece
    head, _, body = bytes(data).partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    parts = [body]
    missing = length - len(body)
    while missing > 0:
        parts.append(secure.recv(65_536))
        missing -= len(parts[-1])
    return head + b"\r\n\r\n" + b"".join(parts)


def _signed(
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Name,
    by: ec.EllipticCurvePrivateKey,
    *,
    authority: bool = False,
    names: tuple[str, ...] = (),
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(by.public_key()), critical=False)
    )
    if authority:
        usage = dict.fromkeys(
            ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"), False
        )
        made = made.add_extension(
            x509.KeyUsage(**usage, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False),
            critical=True,
        )
    if names:
        made = made.add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), critical=True)
    return made.sign(by, hashes.SHA256())


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
