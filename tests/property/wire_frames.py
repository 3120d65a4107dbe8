"""The frames of WebSockets in the fault schedules: usual, odd and damaged ones, and answers in place of an upgrade."""

from __future__ import annotations

import struct

__all__ = ["CLOSE_CODES", "DAMAGES", "FRAMINGS", "UPGRADES", "closed", "damaged", "framed", "refusal"]

FRAMINGS = ("whole", "fragments", "pings", "flood")
"""How messages are sent: each in a frame, in fragments with pings between them, with pings before it, or after thousands of pings."""

CLOSE_CODES = (None, 1000, 1001, 1002, 1008, 1009, 1011, 1012, 1013, 3000, 4001)


def _frame(opcode: int, data: bytes, *, fin: bool = True, reserved: int = 0, mask: bytes = b"") -> bytes:
    first = (0x80 if fin else 0) | reserved << 4 | opcode
    size = len(data)
    if size < 126:
        length = bytes([size])
    elif size < 65_536:
        length = b"\x7e" + struct.pack("!H", size)
    else:
        length = b"\x7f" + struct.pack("!Q", size)
    if mask:
        length = bytes([length[0] | 0x80]) + length[1:]
        data = mask + bytes(byte ^ mask[place % 4] for place, byte in enumerate(data))
    return bytes([first]) + length + data


_PING = _frame(9, b"ping" * 30)
_TEXT = b'{"type":"response.in_progress"}'

DAMAGES = {
    "a reserved opcode": _frame(3, _TEXT),
    "reserved bits": _frame(1, _TEXT, reserved=4),
    "a masked frame": _frame(1, _TEXT, mask=b"abcd"),
    "a binary message": _frame(2, b"\0\1\2"),
    "a continuation of nothing": _frame(0, _TEXT),
    "a message within a message": _frame(1, b'{"type":"respon', fin=False) + _frame(1, _TEXT),
    "a long ping": _frame(9, b"p" * 200),
    "a ping in fragments": _frame(9, b"p", fin=False) + _frame(0, b"q"),
    "a message of a terabyte": b"\x81\x7f" + struct.pack("!Q", 1 << 40) + b"x" * 100,
    "a length beyond all": b"\x81\x7f" + struct.pack("!Q", 1 << 63 | 7) + b"x" * 100,
    "no UTF-8": _frame(1, b'\xff\xfe{"type":"response.output_item.done"'),
    "a close of one byte": _frame(8, b"\x03"),
    "a close code that is none": _frame(8, struct.pack("!H", 999)),
    "a close reason that is no UTF-8": _frame(8, struct.pack("!H", 1000) + b"\xff"),
}


def framed(events: list[bytes], framing: str) -> list[bytes]:
    """Return the frames of the events' data, one entry for each message."""
    frames: list[bytes] = []
    for event in events:
        for line in event.split(b"\n"):
            if line.startswith(b"data: "):
                frames.append(_framed(line[6:], framing))
    if framing == "flood" and frames:
        frames.insert(len(frames) // 2, _PING * 3000)
    return frames


def _framed(data: bytes, framing: str) -> bytes:
    if framing == "pings":
        return _PING * 20 + _frame(1, data) + _frame(10, b"unasked")
    if framing != "fragments":
        return _frame(1, data)
    third = len(data) // 3
    parts = [_frame(1, data[:third], fin=False), _PING, _frame(0, data[third : 2 * third], fin=False)]
    return b"".join([*parts, _frame(0, b"", fin=False), _PING, _frame(0, data[2 * third :])])


def damaged(frames: list[bytes], damage: str, place: float) -> list[bytes]:
    """Return the frames with a damaged one between them."""
    at = int(place * (len(frames) + 1))
    return [*frames[:at], DAMAGES[damage], *frames[at:]]


def closed(frames: list[bytes], code: int | None, place: float) -> list[bytes]:
    """Return the frames up to a place, and a close frame."""
    reason = b"" if code is None else struct.pack("!H", code) + b"bye"
    return [*frames[: int(place * (len(frames) + 1))], _frame(8, reason)]


UPGRADES = ("yes",) * 6 + (
    "200",
    "302",
    "400",
    "401",
    "404",
    "426",
    "503",
    "no head",
    "half head",
    "silence",
    "not http",
)
UPGRADES += ("wrong accept", "no accept", "no upgrade", "unknown extension", "reset")
"""Answers to the request for a WebSocket."""


def refusal(kind: str, accepted: bytes) -> bytes:
    """Return the answer in place of an upgrade.

    Args:
        accepted: The answer of a server that agrees.
    """
    if kind.isdigit():
        return b"HTTP/1.1 %b No\r\nlocation: /\r\nretry-after: 0\r\ncontent-length: 2\r\n\r\nno" % kind.encode()
    lines = accepted.split(b"\r\n")
    accept = next(line for line in lines if line.lower().startswith(b"sec-websocket-accept"))
    upgrade = next(line for line in lines if line.lower().startswith(b"upgrade"))
    match kind:
        case "half head":
            return accepted[: len(accepted) // 2]
        case "not http":
            return b"SSH-2.0-OpenSSH\r\n\r\n"
        case "wrong accept":
            return accepted.replace(accept, accept[:-6] + b"wrong=")
        case "no accept":
            return accepted.replace(accept + b"\r\n", b"")
        case "no upgrade":
            return accepted.replace(upgrade + b"\r\n", b"")
        case "unknown extension":
            return accepted.replace(b"\r\n\r\n", b"\r\nsec-websocket-extensions: x-own\r\n\r\n")
        case _:
            return b""
