"""`GET /healthz` (liveness), `GET /readyz` (readiness), `GET /metrics`; and `GET /docs`: the OpenAPI description as a page.

The page is rendered here, without scripts and files of other hosts.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel
from starlette.responses import HTMLResponse, Response

from service.doors.http.api.state import State
from service.doors.http.auth.gate import Caller
from service.doors.operations.metrics import CONTENT_TYPE

router = APIRouter(tags=["operations"])
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
code, pre { font: 0.9em/1.5 ui-monospace, monospace; }
section { border-top: 1px solid #8886; padding: 0.5rem 0 1rem; }
table { border-collapse: collapse; } td, th { text-align: left; padding: 0.15rem 1rem 0.15rem 0; vertical-align: top; }
"""


class Health(BaseModel):
    """The health of the service.

    Attributes:
        status: `ok`; `starting`, `compiling` or `ending` where queries do not run at once.
        writes: `compiling` as long as the first write would wait for the compiler.
    """

    status: str = "ok"
    writes: str | None = None


@router.get("/healthz", response_model_exclude_none=True)
async def health() -> Health:
    """Check liveness: the service answers. The savepoints are not checked."""
    return Health()


@router.get("/readyz", responses={503: {"model": Health}}, response_model_exclude_none=True)
async def ready(service: State, response: Response) -> Health:
    """Check readiness: queries run at once. 503 until the first worker has started, and while the service is stopping.

    Where the decoder is not compiled for this processor yet, the first worker takes up to a minute: the status is
    `compiling`, and queries that come wait. What only writes need is compiled after that; `writes` says `compiling` meanwhile.
    """
    writes = "compiling" if service.compilation.is_running else None
    if service.queries.is_ending or not service.workers.pool.is_ready:
        response.status_code = HTTPStatus.SERVICE_UNAVAILABLE
        waiting = "compiling" if service.workers.pool.is_compiling else "starting"
        return Health(status="ending" if service.queries.is_ending else waiting, writes=writes)
    return Health(writes=writes)


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
def metrics(service: State, caller: Caller) -> Response:
    """Return the numbers for Prometheus; of rules those of the jobs that this user sees."""
    # Not `async`: collecting the numbers takes locks, and must not hold up the event loop.
    return Response(service.metrics.text(caller), headers={"content-type": CONTENT_TYPE})


@router.get("/docs", include_in_schema=False)
def page(request: Request) -> HTMLResponse:
    """Return a page with all calls, their parameters and their answers."""
    return HTMLResponse("".join(_page(request.app.openapi())), headers={"Content-Security-Policy": _POLICY})


def _page(description: dict[str, Any]) -> Iterator[str]:
    title = escape(description["info"]["title"])
    yield f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}: HTTP</title>'
    yield f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style><main><h1>{title}: HTTP</h1>'
    yield f"<p>{escape(description['info'].get('summary', ''))}, version {escape(description['info']['version'])}. "
    yield 'The same for programs: <a href="/openapi.json">openapi.json</a>.</p>'
    for path, calls in description["paths"].items():
        for method, call in calls.items():
            yield from _call(path, method, call)
    yield "<h2>Objects</h2>"
    for name, schema in sorted(description.get("components", {}).get("schemas", {}).items()):
        yield f'<section id="{escape(name)}"><h3><code>{escape(name)}</code></h3>'
        yield f"<p>{escape(schema.get('description', ''))}</p>"
        yield from _members(schema.get("properties", {}), schema.get("required", ()))
        yield "</section>"
    yield "</main></html>"


def _call(path: str, method: str, call: dict[str, Any]) -> Iterator[str]:
    yield f"<section><h2><code>{escape(method.upper())} {escape(path)}</code></h2>"
    yield f"<p>{escape(call.get('description', call.get('summary', '')))}</p>"
    parameters = call.get("parameters", ())
    if parameters:
        yield "<table>"
        for parameter in parameters:
            yield f"<tr><td><code>{escape(parameter['name'])}</code><td>{escape(parameter['in'])}"
            yield f"<td>{_type(parameter.get('schema', {}))}<td>{escape(parameter.get('description', ''))}"
        yield "</table>"
    for kind, content in call.get("requestBody", {}).get("content", {}).items():
        yield f"<p>body: <code>{escape(kind)}</code>: {_type(content.get('schema', {}))}</p>"
    for status, answer in call.get("responses", {}).items():
        kinds = ", ".join(
            f"<code>{escape(kind)}</code> {_type(content.get('schema', {}))}"
            for kind, content in answer.get("content", {}).items()
        )
        yield f"<p>{escape(status)}: {escape(answer.get('description', ''))} {kinds}</p>"
    yield "</section>"


def _members(properties: dict[str, Any], required: list[str] | tuple[()]) -> Iterator[str]:
    yield "<table>"
    for name, schema in properties.items():
        needed = "required" if name in required else ""
        yield f"<tr><td><code>{escape(name)}</code><td>{_type(schema)}<td>{needed}"
        yield f"<td>{escape(schema.get('description', ''))}"
    yield "</table>"


def _type(schema: dict[str, Any]) -> str:
    """Describe a schema in a few words, with links to objects."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(_type(choice) for choice in schema["anyOf"])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return escape(" ".join(map(str, schema.get("enum", [schema.get("type", "")]))))
