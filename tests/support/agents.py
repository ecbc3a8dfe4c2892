"""Clients of the Model Context Protocol: one that writes its messages itself, and the one of the SDK."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

import httpx

from tests.support.checkpoints import put
from tests.support.paths import DATA

VERSION = "2025-06-18"
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
RECORDED = DATA / "agents" / "wrong-value.json"
"""An agent finds the key whose count is wrong: its calls, and what it was answered."""


class Agent:
    """Speaks with a service over HTTP, in a session of the protocol's version of 2025."""

    def __init__(self, http: httpx.Client, headers: Mapping[str, str] | None = None) -> None:
        self._http = http
        self._headers = {**HEADERS, **(headers or {})}
        self._count = 0
        opened = self.send(
            "initialize",
            {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
        )
        assert opened.status_code == 200, opened.text
        self.greeting: dict[str, Any] = opened.json()["result"]
        self.session = opened.headers["mcp-session-id"]
        self._headers |= {"mcp-session-id": self.session, "mcp-protocol-version": VERSION}

    def send(self, method: str, params: Any = None, **request: Any) -> httpx.Response:
        """Send a request of JSON-RPC."""
        self._count += 1
        message = {"jsonrpc": "2.0", "id": self._count, "method": method, "params": params or {}}
        headers = self._headers | request.pop("headers", {})
        return self._http.post("/mcp", headers=headers, json=message, timeout=60, **request)

    def post(self, content: bytes, **headers: str) -> httpx.Response:
        """Send any bytes."""
        return self._http.post("/mcp", headers=self._headers | headers, content=content, timeout=60)

    def end(self) -> httpx.Response:
        """End the session."""
        return self._http.delete("/mcp", headers=self._headers)

    def tools(self) -> list[dict[str, Any]]:
        """Return the tools as an agent sees them."""
        found: list[dict[str, Any]] = self.send("tools/list").json()["result"]["tools"]
        return found

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool, and return its result."""
        answer = self.send("tools/call", {"name": tool, "arguments": arguments})
        assert answer.status_code == 200, answer.text
        result: dict[str, Any] = answer.json()["result"]
        return result

    def text(self, tool: str, **arguments: Any) -> str:
        """Call a tool, and return what an agent reads."""
        (content,) = self.call(tool, **arguments)["content"]
        return str(content["text"])


def job_in(folder: Any) -> Any:
    """Make the job of the recorded conversation: four checkpoints, of which the last two have a count that is wrong."""
    for number, content in ((41, 1), (42, 1), (43, 2), (44, 2)):
        put(folder / "job" / f"chk-{number}", content, modified_s=1_788_264_000 + number)
    return folder / "job"


def recorded() -> list[dict[str, Any]]:
    """Return the recorded conversation."""
    found: list[dict[str, Any]] = json.loads(RECORDED.read_text(encoding="utf-8"))
    return found


def conversation(
    server: Any, calls: Sequence[Mapping[str, Any]], *, mode: str = "auto", key: str | None = None
) -> list[dict[str, Any]]:
    """Have the calls done by the client of the SDK, one after the other; return them with what is answered.

    Args:
        server: the address of a service, or the parameters of a process.
        calls: each with `tool` and `arguments`.
        mode: `legacy` for the protocol's versions with sessions.
        key: an API key.
    """
    # Importing the SDK takes most of a second.
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared._httpx_utils import create_mcp_http_client

    async def speak() -> list[dict[str, Any]]:
        said = []
        async with AsyncExitStack() as stack:
            target = server
            if key is not None:
                headers = {"authorization": f"Bearer {key}"}
                http = await stack.enter_async_context(create_mcp_http_client(headers=headers))
                target = streamable_http_client(server, http_client=http)
            client = await stack.enter_async_context(Client(target, mode=mode))
            await client.list_tools()
            for one in calls:
                result = await client.call_tool(one["tool"], dict(one["arguments"]))
                content = dict(result.structured_content)
                # The only thing that no two conversations share.
                content.pop("query_id", None)
                (text,) = result.content
                said.append(
                    {
                        "tool": one["tool"],
                        "arguments": dict(one["arguments"]),
                        "text": getattr(text, "text", None),
                        "content": content,
                        "is_error": result.is_error,
                    }
                )
        return said

    return asyncio.run(speak())
