"""The server of the SDK: tools, resources and prompts by the tables of this folder.

One server serves all clients of a door; what a call may see comes with its request, never from the server.

The server over standard input and output: one client, which started the process and may see what its user may see.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn, TypeVar

import anyio
import mcp_types as types
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from service.base.errors import QueryCancelledError, QueryError, query_error_of
from service.base.principal import Principal
from service.base.version import installed_version
from service.base.waiting import found_beside
from service.doors.mcp.calls import Call
from service.doors.mcp.guide import INSTRUCTIONS, PROMPTS
from service.doors.mcp.results import ToolResult, failure_of
from service.doors.mcp.tools import (
    MEDIA_TYPE,
    TEMPLATES,
    Tool,
    called,
    listed_resources,
    near_tools,
    read_resource,
    tools_of,
)
from service.doors.served import Served
from service.query.encode import size_text

logger = logging.getLogger("savepointdb")

_NAME = "savepointdb"
_PROGRESS_EVERY_S = 0.5
_Context = ServerRequestContext[Any, Any]
_Calls = Callable[[str, _Context], tuple[Call, anyio.Event | None]]
_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """A call for as long as somebody wants its result.

    Attributes:
        call: the call.
        context: the request of the client.
        gone: what is set when the client is gone; None if the end of the connection says that.
    """

    call: Call
    context: _Context
    gone: anyio.Event | None


def server_of(served: Served, calls: _Calls) -> Server[Any]:
    """Return a server.

    Args:
        served: the objects that answer.
        calls: the name of a tool, or of what else is asked, and the context of a request → the call, and what is set when its client
            is gone; None if the end of the connection says that.
    """
    known = tools_of(served)
    tools = [_listed(name, tool) for name, tool in known.items()]

    def wanted_of(name: str, context: _Context) -> _Wanted:
        call, gone = calls(name, context)
        return _Wanted(call=call, context=context, gone=gone)

    async def list_tools(
        _context: _Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    async def call_tool(context: _Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = known.get(params.name)
        if tool is None:
            near = ", ".join(near_tools(params.name, known))
            raise MCPError(types.INVALID_PARAMS, f"no tool is called {params.name!r:.100}; there are {near}")
        wanted = wanted_of(params.name, context)
        return _answer(
            await _result_of(tool.title, lambda: called(tool, wanted.call, params.arguments), wanted)
        )

    async def list_resources(
        context: _Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        wanted = wanted_of("resources", context)
        cursor = None if params is None else params.cursor
        try:
            resources, following = await _while_wanted(lambda: listed_resources(wanted.call, cursor), wanted)
        except QueryError as error:
            raise _refusal(failure_of(error)) from error
        return types.ListResourcesResult(
            resources=[
                types.Resource(uri=uri, name=name, description=meaning, mime_type=MEDIA_TYPE)
                for uri, (name, meaning) in resources.items()
            ],
            next_cursor=following,
        )

    async def read(context: _Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        wanted = wanted_of("resource", context)
        result = await _result_of("resource", lambda: read_resource(wanted.call, params.uri), wanted)
        if result.is_error:
            raise _refusal(result)
        content = types.TextResourceContents(uri=params.uri, mime_type=MEDIA_TYPE, text=result.text)
        return types.ReadResourceResult(contents=[content])

    return Server(
        _NAME,
        title=_NAME,
        version=installed_version(),
        instructions=INSTRUCTIONS,
        get_tool_input_schema=lambda name: known[name].input_schema if name in known else None,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=_list_templates,
        on_read_resource=read,
        on_list_prompts=_list_prompts,
        on_get_prompt=_get_prompt,
    )


async def _result_of(name: str, work: Callable[[], Awaitable[ToolResult]], wanted: _Wanted) -> ToolResult:
    """Return the result of a call; an error is one, too."""
    try:
        return await _while_wanted(work, wanted)
    except QueryError as error:
        return failure_of(error)
    except Exception as error:  # the client gets no more of it than that it happened
        logger.exception("mcp: %s", name)
        return failure_of(query_error_of(error))


async def _while_wanted(work: Callable[[], Awaitable[_Found]], wanted: _Wanted) -> _Found:
    """Work until the client is gone, and tell it how far the work is.

    Raises:
        QueryCancelledError: the client is gone.
    """
    gone = () if wanted.gone is None else (wanted.gone.wait,)
    found = await found_beside(work, partial(_tell_progress, wanted.call, wanted.context), *gone)
    if not found:
        raise QueryCancelledError("the client is gone")
    return found[0]


async def _tell_progress(call: Call, context: _Context) -> None:
    """Tell a client that asked for it how many bytes its call has read; nothing while that number stays the same."""
    told = 0
    while True:
        await anyio.sleep(_PROGRESS_EVERY_S)
        read, total = call.queries.bytes_read()
        if read > told:
            told, total = read, max(read, total)
            await context.session.report_progress(
                read, total, f"{size_text(read)} of about {size_text(total)} read"
            )


def _listed(name: str, tool: Tool) -> types.Tool:
    return types.Tool(
        name=name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=types.ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
    )


def _answer(result: ToolResult) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=result.text)],
        structured_content=result.content,
        is_error=result.is_error,
    )


def _refusal(result: ToolResult) -> MCPError:
    return MCPError(types.INVALID_PARAMS, result.text, result.content)


async def _list_templates(
    _context: _Context, _params: types.PaginatedRequestParams | None
) -> types.ListResourceTemplatesResult:
    templates = [
        types.ResourceTemplate(uri_template=template, name=name, description=meaning, mime_type=MEDIA_TYPE)
        for template, (name, meaning) in TEMPLATES.items()
    ]
    return types.ListResourceTemplatesResult(resource_templates=templates)


async def _list_prompts(
    _context: _Context, _params: types.PaginatedRequestParams | None
) -> types.ListPromptsResult:
    prompts = [
        types.Prompt(
            name=name,
            title=prompt.title,
            description=prompt.description,
            arguments=[
                types.PromptArgument(name=each, description=meaning, required=False)
                for each, meaning in prompt.arguments.items()
            ],
        )
        for name, prompt in PROMPTS.items()
    ]
    return types.ListPromptsResult(prompts=prompts)


async def _get_prompt(_context: _Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
    prompt = PROMPTS.get(params.name)
    if prompt is None:
        raise MCPError(
            types.INVALID_PARAMS, f"no prompt is called {params.name!r:.100}; there are {', '.join(PROMPTS)}"
        )
    content = types.TextContent(type="text", text=prompt.text(params.arguments or {}))
    return types.GetPromptResult(
        description=prompt.description, messages=[types.PromptMessage(role="user", content=content)]
    )


def serve(served: Served, caller: Principal, interrupted: Callable[[int], NoReturn]) -> None:
    """Serve until the client closes standard input.

    Standard output belongs to the protocol: the SDK lets everything else that prints go to standard error.

    Args:
        served: the objects that answer.
        caller: the client.
        interrupted: gets the number of a signal that asks for the end, and ends the process.
    """

    def call_of(tool: str, _context: ServerRequestContext[Any, Any]) -> tuple[Call, anyio.Event | None]:
        return Call(served=served, caller=caller, source=f"mcp {tool}"), None

    async def run() -> None:
        # An exception would wait for the thread that reads standard input, which waits for the client.
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, interrupted, number)
        server = server_of(served, call_of)
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    anyio.run(run)
