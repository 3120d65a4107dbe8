"""What callers may send to agents."""

from __future__ import annotations

import pytest

from codex_framework import FileAccess, NetworkMode, ToolError
from codex_framework.contract.protocol.ops import ImageInput
from codex_plugin_sub_agents.arguments import read_input

PLACE = "https://images.example/?what=was-read"


@pytest.mark.parametrize("mode", list(NetworkMode))
def test_only_a_thread_with_an_open_network_may_send_addresses_of_images(mode):
    given, access = {"items": [{"type": "image", "image_url": PLACE}]}, FileAccess(full=True, network=mode)
    if mode is NetworkMode.ON:
        assert read_input(given, access)[0] == [ImageInput(PLACE)]
        return
    with pytest.raises(ToolError, match="cannot be sent without network access"):
        read_input(given, access)
