"""One HTTP request → the SDK → one answer. A client that disconnects is noticed, and cancels its query.

| request | is |
|---|---|
| POST | one message of JSON-RPC; for versions of the protocol before 2026-07-28 in a session |
| DELETE | the end of a session |

The answer is JSON. Where there are no sessions, one that takes longer is a stream of events: progress, and then the answer.

The gate has checked host, origin and credentials before, and does so for each request again: a session is no credential, and belongs to
the user who opened it. Half of the sessions are for one user at most, and each lasts until it is idle: the SDK has a limit of all sessions,
the ledger here keeps one user from taking all of them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import anyio
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.context import ServerRequestContext
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from service.base.errors import TooManySessionsError
from service.base.principal import Identity, Principal, Source
from service.doors.mcp.calls import Call
from service.doors.mcp.server import server_of
from service.doors.served import Served

_RETRY_AFTER_S = 30
_VERSION_HEADER = "mcp-protocol-version"
_EVENTS = "text/event-stream"
_REFUSED = 400
_CALLER, _GONE = "mcp_caller", "mcp_gone"


@dataclass(slots=True, kw_only=True)
class _Session:
    owner: Identity
    requests: int = 0
    idle_since: float = 0.0


class Sessions:
    """The open sessions. The thread of the event loop uses it alone.

    Args:
        most: of all users.
        idle_s: seconds without a request after which a session ends.
    """

    def __init__(self, most: int, idle_s: float) -> None:
        self._most = most
        self._idle_s = idle_s
        self._open: dict[str, _Session] = {}
        self._opening: list[Identity] = []

    @contextmanager
    def opening(self, owner: Identity) -> Iterator[None]:
        """Keep room for one more session of a user while a block lasts.

        Raises:
            TooManySessionsError: the user, or all users, have too many.
        """
        self._forget()
        owners = [*(session.owner for session in self._open.values()), *self._opening]
        if len(owners) >= self._most or owners.count(owner) >= max(1, self._most // 2):
            raise TooManySessionsError("too many sessions are open", retry_after_s=_RETRY_AFTER_S)
        self._opening.append(owner)
        try:
            yield
        finally:
            self._opening.remove(owner)

    def opened(self, session_id: str, owner: Identity) -> None:
        """Note that a user has opened a session."""
        self._open[session_id] = _Session(owner=owner, idle_since=time.monotonic())

    def begun(self, session_id: str) -> None:
        """Note that a request of a session has begun."""
        if session_id in self._open:
            self._open[session_id].requests += 1

    def ended(self, session_id: str) -> None:
        """Note that a request of a session has ended."""
        if session_id in self._open:
            self._open[session_id].requests -= 1
            self._open[session_id].idle_since = time.monotonic()

    def closed(self, session_id: str) -> None:
        """Forget a session."""
        self._open.pop(session_id, None)

    def _forget(self) -> None:
        """Forget those that the SDK has ended, because nobody used them."""
        oldest = time.monotonic() - self._idle_s
        for session_id, session in list(self._open.items()):
            if not session.requests and session.idle_since < oldest:
                del self._open[session_id]


class Door:
    """Answers the requests of clients of the protocol. Made and used in the event loop.

    Args:
        served: the objects that answer.
    """

    def __init__(self, served: Served) -> None:
        limits = served.settings.mcp
        self._served = served
        self._sessions = Sessions(limits.sessions, limits.idle_s)
        server = server_of(served, self._call)
        longest = served.settings.server.max_request_bytes
        self._manager = StreamableHTTPSessionManager(
            server,
            json_response=True,
            session_idle_timeout=limits.idle_s,
            # The ledger refuses before, and with an error of ours.
            max_sessions=limits.sessions + 1,
            max_request_body_size=longest,
        )
        self._streaming = StreamableHTTPSessionManager(server, stateless=True, max_request_body_size=longest)
        self._stop = asyncio.Event()
        self._is_open = asyncio.Event()
        self._running = asyncio.create_task(self._run())

    async def close(self) -> None:
        """End all sessions, and cancel their calls."""
        self._stop.set()
        await self._running

    def answer(self, caller: Principal) -> Response:
        """Return what answers a request of a user."""
        return _Answer(self, caller)

    async def handle(self, scope: Scope, receive: Receive, send: Send, caller: Principal) -> None:
        """Let the SDK handle a request.

        Raises:
            TooManySessionsError: it would open a session, and there are too many.
        """
        await self._is_open.wait()
        headers = Headers(scope=scope)
        version = headers.get(_VERSION_HEADER)
        has_session = MCP_SESSION_ID_HEADER in headers
        is_of_sessions = version is None or version in HANDSHAKE_PROTOCOL_VERSIONS
        streams = not is_of_sessions and _EVENTS in headers.get("accept", "")
        manager = self._streaming if streams else self._manager
        with self._sessions.opening(caller.identity) if is_of_sessions and not has_session else nullcontext():
            await self._handle(manager, scope, receive, send, caller)

    async def _handle(
        self,
        manager: StreamableHTTPSessionManager,
        scope: Scope,
        receive: Receive,
        send: Send,
        caller: Principal,
    ) -> None:
        """Let the SDK handle a request, and watch whether its client stays."""
        messages = await _body(receive)
        if messages is None:
            return
        gone = anyio.Event()
        state = {**scope.get("state", {}), _CALLER: caller, _GONE: gone}
        own = {**scope, "state": state}
        if caller.source is not Source.NOBODY:
            # The SDK lets only the user of a session use it.
            name = f"{caller.source.value}:{caller.name}"
            own["user"] = AuthenticatedUser(AccessToken(token="", client_id=name, scopes=[]))
        session_id = Headers(scope=scope).get(MCP_SESSION_ID_HEADER, "")
        waiting = iter(messages)

        async def replay() -> Message:
            message = next(waiting, None)
            if message is None:
                await gone.wait()
                return {"type": "http.disconnect"}
            return message

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            gone.set()

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < _REFUSED:
                self._note(scope["method"], session_id, Headers(raw=message["headers"]), caller)
            await send(message)

        self._sessions.begun(session_id)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(watch)
                await manager.handle_request(own, replay, noted)
                group.cancel_scope.cancel()
        finally:
            self._sessions.ended(session_id)

    def _note(self, method: str, session_id: str, headers: Headers, caller: Principal) -> None:
        """Note in the ledger what an answer says of sessions."""
        given = headers.get(MCP_SESSION_ID_HEADER, "")
        if method == "DELETE":
            self._sessions.closed(session_id)
        elif given and not session_id:
            self._sessions.opened(given, caller.identity)

    def _call(self, tool: str, context: ServerRequestContext[Any, Any]) -> tuple[Call, anyio.Event | None]:
        request = context.request
        assert request is not None  # the SDK sets it for each request over HTTP
        state = request.scope["state"]
        call = Call(
            served=self._served,
            caller=state[_CALLER],
            source=f"mcp {tool}: {request.headers.get('user-agent', '')}",
        )
        return call, state[_GONE]

    async def _run(self) -> None:
        """Keep the SDK's own tasks; a task group belongs to the task that opens it."""
        async with self._manager.run(), self._streaming.run():
            self._is_open.set()
            await self._stop.wait()


class _Answer(Response):
    """An answer that the SDK writes.

    Args:
        door: hands the request to it.
        caller: the user.
    """

    def __init__(self, door: Door, caller: Principal) -> None:
        super().__init__()
        self._door = door
        self._caller = caller

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle the request; the signature is ASGI's."""
        await self._door.handle(scope, receive, send, self._caller)


async def _body(receive: Receive) -> list[Message] | None:
    """Receive the messages of the body; None if the client is gone before its end."""
    messages: list[Message] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        messages.append(message)
        if not message.get("more_body"):
            return messages
