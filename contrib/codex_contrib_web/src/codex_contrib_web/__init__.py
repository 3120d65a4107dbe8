"""Agents over HTTP: ``app = AgentApp(agent, authenticate=user)``."""

from __future__ import annotations

from codex_contrib_web.app import AgentApp

__all__ = ["AgentApp"]
