"""The provider fulfils its role, also when its server fails."""

from __future__ import annotations

from codex_framework.testing import RESPONSES, check_provider
from codex_plugin_openai.provider import ResponsesProvider


def test_the_provider_fulfils_its_role_whatever_the_server_does() -> None:
    check_provider(ResponsesProvider(), wire=RESPONSES)
