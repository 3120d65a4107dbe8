"""Compressed responses, decompressed as they arrive and within bounds."""

from __future__ import annotations

import asyncio
import sys
import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from codex_lib_model_client.transport_errors import CutError

if TYPE_CHECKING:
    from codex_lib_model_client.transport import Answer

__all__ = ["decoded"]

_PIECE = 1 << 16
"""Bytes of content that are passed on in one step."""

_SHORT = 64 << 20
"""Bytes of content that every response may have."""

_RATIO = 100
"""How many times as long as what arrives the content may be, beyond that. Streams of events become 5 to 50 times as long."""

_WINDOW_LOG = 23
"""The longest window of zstd over HTTP is 8 MiB (RFC 9659). The decompressor buffers as much."""


class _Decompressor(Protocol):
    """Decompresses one frame, as the objects of zlib and zstd do."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


def decoded(answer: Answer) -> Answer:
    """Return a response with its body decompressed, or the given one if its encoding is unknown or missing."""
    begin = _BEGINNINGS.get(answer.headers.get("content-encoding", "").strip().lower())
    return answer if begin is None else _DecodedAnswer(answer, begin)


class _DecodedAnswer:
    """A response whose body is decompressed."""

    def __init__(self, answer: Answer, begin: Callable[[], _Decompressor]) -> None:
        self.status = answer.status
        self.phrase = answer.phrase
        self.headers: Mapping[str, str] = {
            name: value for name, value in answer.headers.items() if name not in ("content-encoding", "content-length")
        }
        self._answer = answer
        self._begin = begin
        self._frame: _Decompressor | None = None
        self._rest = b""
        self._is_full = False
        self._room = _SHORT

    @property
    def has_arrived(self) -> bool:
        """Whether all of the body has arrived."""
        return self._answer.has_arrived

    async def read(self, within_s: float) -> bytes:
        """Return the next piece of the content, or ``b""`` at its end.

        Raises:
            CutError: The connection broke, or the body is not what its encoding says.
            OverflowError: The content is too long for so short a body.
            SilenceError: Nothing arrived within ``within_s`` seconds.
        """
        while True:
            if self._rest or self._is_full:
                await asyncio.sleep(0)  # a few bytes may stand for much content, and others want to run
            else:
                self._rest = await self._answer.read(within_s)
                if not self._rest:
                    if self._frame is not None:
                        raise CutError("the end of the compressed body is missing")
                    return b""
                self._room += _RATIO * len(self._rest)
            if content := self._decompress():
                return content

    async def aclose(self) -> None:
        """Release the response."""
        await self._answer.aclose()

    def _decompress(self) -> bytes:
        data, self._rest = self._rest, b""
        if self._frame is None:
            self._frame = self._begin()
        try:
            content = self._frame.decompress(data, _PIECE)
        except Exception as error:  # zlib.error, or ZstdError of a module that may not be imported
            raise CutError(f"the body cannot be decompressed: {error}") from error
        self._is_full = len(content) == _PIECE and not self._frame.eof
        if self._frame.eof:
            self._rest, self._frame = self._frame.unused_data, None
        self._room -= len(content)
        if self._room < 0:
            raise OverflowError(f"a compressed response whose content is more than {_RATIO} times as long")
        return content


class _Gzip:
    """A decompressor for one member, which keeps surplus data, as zstd's decompressor does."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)

    @property
    def eof(self) -> bool:
        return self._member.eof

    @property
    def unused_data(self) -> bytes:
        return self._member.unused_data

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        return self._member.decompress(self._member.unconsumed_tail + data, max_length)


def _zstd() -> _Decompressor:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _WINDOW_LOG})


_BEGINNINGS: Mapping[str, Callable[[], _Decompressor]] = {"gzip": _Gzip, "x-gzip": _Gzip, "zstd": _zstd}
"""The encodings that are decompressed, and what begins a frame of each."""
