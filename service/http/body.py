"""The limit on the size of requests: a body is counted while it arrives, and refused when it is too long.

Starlette has such a limit too, but its answer is not our JSON error.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.errors import LimitExceededError
from service.http.errors import error_response


class RequestSizeLimit:
    """Middleware that reads the body of a request before the application does.

    Args:
        app: the application.
        max_bytes: longest body.
    """

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request; the signature is ASGI's."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        messages = await self._body(receive)
        if messages is None:
            error = LimitExceededError(f"expected a request of at most {self._max_bytes} bytes, found more")
            await error_response(error)(scope, receive, send)
            return
        waiting = iter(messages)

        # The application gets the messages that were already received, then new ones, such as a disconnect.
        async def replay() -> Message:
            message = next(waiting, None)
            return await receive() if message is None else message

        await self._app(scope, replay, send)

    async def _body(self, receive: Receive) -> list[Message] | None:
        """Receive the messages of the body; None if it is too long."""
        messages: list[Message] = []
        length = 0
        while True:
            message = await receive()
            messages.append(message)
            length += len(message.get("body", b""))
            if length > self._max_bytes:
                return None
            if not message.get("more_body"):
                return messages
