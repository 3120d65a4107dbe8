"""Realtime conversations: a voice session beside a thread. Its events and errors are sent as notifications."""

from __future__ import annotations

from typing import Any

from codex_plugin_app_server.errors import METHOD_NOT_FOUND, RpcError
from codex_plugin_app_server.server import Call
from codex_plugin_app_server.table import Json, MethodTable

table = MethodTable()

_START = {
    "outputModality": "output_modality",
    "model": "model",
    "realtimeSessionId": "realtime_session_id",
    "version": "version",
    "voice": "voice",
    "includeStartupContext": "include_startup_context",
    "clientManagedHandoffs": "client_managed_handoffs",
}


@table.method(
    "thread/realtime/start", "ThreadRealtimeStartParams", "ThreadRealtimeStartResponse", stability="experimental"
)
async def start(call: Call) -> Json:
    """Start a realtime conversation. One that the thread already has is closed."""
    params = call.params
    fields: dict[str, Any] = {ours: params[name] for name, ours in _START.items() if params.get(name) is not None}
    if "prompt" in params:
        fields["prompt"] = params["prompt"]  # null means no instructions
    transport = params.get("transport")
    if transport is not None:
        if transport["type"] == "existingCall":
            raise RpcError(
                "thread/realtime/start with an existing call is not supported by this server", METHOD_NOT_FOUND
            )
        fields["transport"] = transport
    return await _submit(call, "realtime_conversation_start", **fields)


@table.method(
    "thread/realtime/appendAudio",
    "ThreadRealtimeAppendAudioParams",
    "ThreadRealtimeAppendAudioResponse",
    stability="experimental",
)
async def append_audio(call: Call) -> Json:
    """Add audio of the user."""
    audio = call.params["audio"]
    frame = {
        "data": audio["data"],
        "sample_rate": audio["sampleRate"],
        "num_channels": audio["numChannels"],
        "samples_per_channel": audio.get("samplesPerChannel"),
        "item_id": audio.get("itemId"),
    }
    return await _submit(call, "realtime_conversation_audio", frame=frame)


@table.method(
    "thread/realtime/appendText",
    "ThreadRealtimeAppendTextParams",
    "ThreadRealtimeAppendTextResponse",
    stability="experimental",
)
async def append_text(call: Call) -> Json:
    """Add a text."""
    return await _submit(
        call, "realtime_conversation_text", text=call.params["text"], role=call.params.get("role") or "user"
    )


@table.method(
    "thread/realtime/appendSpeech",
    "ThreadRealtimeAppendSpeechParams",
    "ThreadRealtimeAppendSpeechResponse",
    stability="experimental",
)
async def append_speech(call: Call) -> Json:
    """Add a text that the voice model is to tell the user."""
    return await _submit(call, "realtime_conversation_speech", text=call.params["text"])


@table.method(
    "thread/realtime/stop", "ThreadRealtimeStopParams", "ThreadRealtimeStopResponse", stability="experimental"
)
async def stop(call: Call) -> Json:
    """End the conversation."""
    return await _submit(call, "realtime_conversation_close")


@table.method(
    "thread/realtime/listVoices",
    "ThreadRealtimeListVoicesParams",
    "ThreadRealtimeListVoicesResponse",
    stability="experimental",
)
async def list_voices(call: Call) -> Json:
    """List the voices."""
    tag = "realtime_conversation_list_voices"
    answer = await call.server.ask(tag, f"{tag}_response")
    if answer is None:
        raise RpcError("no plugin offers realtime conversations", METHOD_NOT_FOUND)
    return {"voices": answer["voices"]}


async def _submit(call: Call, op: str, **fields: Any) -> Json:
    loaded = call.server.thread(call.params["threadId"])
    loaded.hold(call)
    await loaded.thread.submit(call.server.kernel.op(op, **fields))
    return {}
