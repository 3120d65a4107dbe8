"""Audio of the user, as the session expects it, and how long audio lasts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codex_framework import ThreadError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codex_plugin_realtime.ops import RealtimeAudioFrame

__all__ = ["CHANNELS", "SAMPLE_RATE", "checked_audio", "duration_ms"]

SAMPLE_RATE = 24_000
"""In hertz. The session is set up with it, as in Codex."""

CHANNELS = 1

_FRAME_LIMIT = 1 << 20
"""Longest frame, in characters of base64: about 16 s of audio."""

_BYTES_PER_SAMPLE = 2


def checked_audio(frame: RealtimeAudioFrame) -> str:
    """Return the data of a frame, which the server is to take for 16-bit PCM at 24 kHz in one channel.

    Raises:
        ThreadError: It is something else. The server would take it for noise.
    """
    import binascii

    if frame.sample_rate != SAMPLE_RATE or frame.num_channels != CHANNELS:
        raise _wrong(
            f"the audio has {frame.sample_rate} Hz and {frame.num_channels} channels, not {SAMPLE_RATE} Hz and one"
        )
    if len(frame.data) > _FRAME_LIMIT:
        raise _wrong(f"the audio frame has {len(frame.data)} characters, and {_FRAME_LIMIT} are allowed")
    try:
        samples = binascii.a2b_base64(frame.data, strict_mode=True)
    except (binascii.Error, ValueError):
        raise _wrong("the data of the audio frame is not base64") from None
    if not samples:
        raise _wrong("the audio frame is empty")
    return frame.data


def _wrong(fact: str) -> ThreadError:
    return ThreadError(
        fact, slug="realtime-audio", hint="Send 16-bit PCM, 24 kHz, one channel, in base64, in frames of at most 10 s."
    )


def duration_ms(frame: Mapping[str, Any]) -> int:
    """Return how long a frame of the server lasts, in milliseconds. 0 means that it cannot be told."""
    samples = frame.get("samples_per_channel")
    if samples is None:
        import binascii

        try:
            samples = len(binascii.a2b_base64(frame["data"])) // _BYTES_PER_SAMPLE // max(frame["num_channels"], 1)
        except (binascii.Error, ValueError):
            return 0
    return int(samples) * 1000 // max(int(frame["sample_rate"]), 1)
