"""A server of the official SDK, which speaks the revision 2026-07-28 too: ``python modern_server.py stdio|http [PORT]``."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated, Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve
from pydantic import BaseModel

server = MCPServer("modern", instructions="be brief")


class Who(BaseModel):
    name: str


async def who() -> Any:
    return Elicit("who are you?", Who)


@server.tool()
def add(a: int, b: int) -> int:
    return a + b


@server.tool()
async def greet(who: Annotated[Who, Resolve(who)]) -> str:
    return f"hello {who.name}"


@server.tool()
async def slow(ctx: Context) -> str:
    for step in range(3):
        await ctx.report_progress(step + 1, 3, "step")
        await asyncio.sleep(0.01)
    return "done"


@server.tool()
async def learn(ctx: Context) -> str:
    server.add_tool(lambda: "new", name="learnt")
    await ctx.notify_tools_changed()
    return "learnt"


if __name__ == "__main__":
    if sys.argv[1] == "http":
        server.run(transport="streamable-http", port=int(sys.argv[2]))
    else:
        server.run()
