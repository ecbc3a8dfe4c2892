"""Apache Superset over a savepoint, end to end: connect, browse, a dataset, a chart and its data, a query that is stopped.

    python examples/superset_tour.py [--directory DIR] [--keep]

Installs Superset into an environment of its own below DIR (a gigabyte; the first time takes some minutes), starts it and a
savepointdb on ports of this machine, and drives it through its own HTTP API, as its page does. The tour ends with an error at
the first wrong answer. `--keep` leaves both running and prints their addresses, so that you can look at the chart yourself.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import socket
import subprocess
import sys
import threading
import time
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

PROJECT = Path(__file__).parent.parent
SAVEPOINTS = PROJECT / "tests/data/flink/2.3.0/wordcount-rocksdb-savepoints"
ROOTS = [f"--root={SAVEPOINTS / name}" for name in ("canonical", "native")]
# Superset 6.1.0 imports the last two without requiring them. It allows any flask-caching 2, but fails with the later ones.
PACKAGES = ("apache-superset==6.1.0", "trino==0.340.0", "flask-caching==2.3.1", "rich", "cachetools")
USER, SCHEMA, TABLE = "tour", "native", "aggregate__count"
CONFIG = """
SECRET_KEY = {secret!r}
SQLALCHEMY_DATABASE_URI = {database!r}
TALISMAN_ENABLED = False
RATELIMIT_ENABLED = False
SQLLAB_TIMEOUT = 120
"""


def main() -> None:
    """Install, start both, and run the tour."""
    parser = argparse.ArgumentParser(description="Superset over a savepoint, end to end.")
    parser.add_argument("--directory", type=Path, default=Path.home() / ".cache" / "savepointdb-superset")
    parser.add_argument("--keep", action="store_true", help="leave both running")
    options = parser.parse_args()
    programs = install(options.directory)
    with contextlib.ExitStack() as stack:
        service = stack.enter_context(savepointdb())
        password = secrets.token_urlsafe(12)
        address = stack.enter_context(superset(options.directory, programs, password))
        tour(Superset(address, password), service)
        if options.keep:
            print(f"\nSuperset: {address} as {USER}, password {password}\nsavepointdb: {service}")
            with contextlib.suppress(KeyboardInterrupt):
                threading.Event().wait()


def tour(superset_: Superset, service: str) -> None:
    """Do what a person does to connect a dashboard."""
    database = superset_.post(
        "/api/v1/database/",
        {
            "database_name": f"savepointdb {secrets.token_hex(3)}",
            "sqlalchemy_uri": service.replace("http://", f"trino://{USER}@") + "/flink",
            "expose_in_sqllab": True,
            "allow_run_async": False,
        },
    )["id"]
    report("connected", f"database {database}")

    schemas = superset_.get(f"/api/v1/database/{database}/schemas/")["result"]
    expect(sorted(schemas), ["canonical", "information_schema", "latest", "native"])
    report("browsed", f"schemas {', '.join(sorted(schemas))}")
    tables = superset_.get(f"/api/v1/database/{database}/tables/?q=(schema_name:{SCHEMA})")["result"]
    expect(TABLE in {table["value"] for table in tables}, True)

    dataset = superset_.post(
        "/api/v1/dataset/", {"database": database, "schema": SCHEMA, "table_name": TABLE}
    )["id"]
    columns = superset_.get(f"/api/v1/dataset/{dataset}")["result"]["columns"]
    expect(sorted(column["column_name"] for column in columns)[:3], ["_key_group", "_subtask", "key"])
    report("dataset", f"{TABLE} with {len(columns)} columns")

    chart = superset_.post(
        "/api/v1/chart/",
        {
            "slice_name": "Entries by subtask",
            "viz_type": "table",
            "datasource_id": dataset,
            "datasource_type": "table",
            "params": '{"viz_type": "table"}',
        },
    )["id"]
    rows = superset_.post("/api/v1/chart/data", chart_query(dataset))["result"][0]["data"]
    # Superset speaks Trino's protocol to the service; the HTTP API must give the same numbers.
    direct = httpx.post(
        f"{service}/api/query",
        json={"sql": f'SELECT _subtask, count(*), sum(value) FROM {SCHEMA}."{TABLE}" GROUP BY 1 ORDER BY 1'},
        timeout=60,
    ).json()["rows"]
    expect([[row["_subtask"], row["entries"], row["total"]] for row in rows], direct)
    report("chart", f"{chart}: {rows}")

    answer = superset_.sql(database, f"SELECT value FROM {SCHEMA}.\"aggregate\" WHERE key = 'key_662'")
    expect([list(row.values()) for row in answer["data"]], [[11290]])
    report("SQL Lab", f"key_662 is {answer['data'][0]['value']}")
    stop_query(superset_, database, service)


def chart_query(dataset: int) -> dict[str, Any]:
    """Return a chart's request for its data: entries and their sum by subtask."""

    def metric(expression: str, label: str) -> dict[str, str]:
        return {"expressionType": "SQL", "sqlExpression": expression, "label": label}

    return {
        "datasource": {"id": dataset, "type": "table"},
        "queries": [
            {
                "columns": ["_subtask"],
                "metrics": [metric("COUNT(*)", "entries"), metric("SUM(value)", "total")],
                "orderby": [["_subtask", True]],
                "row_limit": 100,
            }
        ],
        "result_format": "json",
        "result_type": "full",
    }


def stop_query(superset_: Superset, database: int, service: str) -> None:
    """Start a query that would take for ever, and press the Stop button."""
    client_id = secrets.token_hex(5)
    # A product of 10^12 rows: nothing but the Stop button ends it in time.
    sql = "SELECT count(*) FROM UNNEST(sequence(1, 1000000)) a(x), UNNEST(sequence(1, 1000000)) b(y)"
    ended: list[Any] = []
    thread = threading.Thread(
        target=lambda: ended.append(superset_.sql(database, sql, client_id, fails=True))
    )
    thread.start()
    try:
        wait_for(lambda: running(service) == 1, 60)
        superset_.post("/api/v1/query/stop", {"client_id": client_id})
        wait_for(lambda: running(service) == 0, 30)
    finally:
        thread.join(60)
    expect(thread.is_alive(), False)
    report("stopped", "a query that would have taken for ever")


def running(service: str) -> int:
    """Return the number of queries that the service runs."""
    metrics = httpx.get(f"{service}/metrics", timeout=30).text
    line = next(line for line in metrics.splitlines() if 'queries_open{state="running"}' in line)
    return int(float(line.split()[-1]))


class Superset:
    """A client of Superset's own API.

    Args:
        address: of Superset.
        password: of its user.
    """

    def __init__(self, address: str, password: str) -> None:
        self._http = httpx.Client(base_url=address, timeout=180, follow_redirects=True)
        login = self._http.post(
            "/api/v1/security/login",
            json={"username": USER, "password": password, "provider": "db", "refresh": True},
        )
        login.raise_for_status()
        self._http.headers["authorization"] = f"Bearer {login.json()['access_token']}"
        # Superset accepts changes only with a token, from a page of its own.
        self._http.headers["x-csrftoken"] = self.get("/api/v1/security/csrf_token/")["result"]
        self._http.headers["referer"] = address

    def get(self, path: str) -> Any:
        """Return the answer to a GET, which must succeed."""
        return self._answer(self._http.get(path))

    def post(self, path: str, body: Any) -> Any:
        """Return the answer to a POST, which must succeed."""
        return self._answer(self._http.post(path, json=body))

    def sql(self, database: int, sql: str, client_id: str | None = None, *, fails: bool = False) -> Any:
        """Run a statement as SQL Lab does."""
        body = {
            "database_id": database,
            "sql": sql,
            "schema": SCHEMA,
            "client_id": client_id or secrets.token_hex(5),
            "runAsync": False,
        }
        answer = self._http.post("/api/v1/sqllab/execute/", json=body)
        return answer.text if fails else self._answer(answer)

    @staticmethod
    def _answer(answer: httpx.Response) -> Any:
        if not answer.is_success:
            sys.exit(
                f"{answer.request.method} {answer.request.url}: {answer.status_code} {answer.text[:2000]}"
            )
        return answer.json()


def install(directory: Path) -> Path:
    """Install Superset into an environment, the first time; return the folder of its programs."""
    environment = directory / "environment"
    programs = environment / "bin"
    if not (environment / ".done").exists():
        print(f"Installing {' '.join(PACKAGES)} into {environment}; this takes some minutes", flush=True)
        venv.create(environment, with_pip=True, clear=True)
        subprocess.run([programs / "python", "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
        # Made last: an interrupted installation begins anew the next time.
        (environment / ".done").touch()
    return programs


@contextlib.contextmanager
def savepointdb() -> Iterator[str]:
    """Yield the address of a service over the sample savepoints."""
    port = free_port()
    command = [sys.executable, "-m", "service.cli", "serve", *ROOTS, "--port", str(port)]
    with running_program(command, dict(os.environ), PROJECT):
        wait_for(lambda: answers(f"http://127.0.0.1:{port}/healthz"), 120)
        yield f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def superset(directory: Path, programs: Path, password: str) -> Iterator[str]:
    """Yield the address of a Superset with a database of its own."""
    home = directory / "home"
    home.mkdir(parents=True, exist_ok=True)
    # The databases and charts of an earlier tour are in it.
    (home / "superset.db").unlink(missing_ok=True)
    config = home / "superset_config.py"
    config.write_text(
        CONFIG.format(
            secret=secrets.token_hex(32), database=f"sqlite:///{home / 'superset.db'}?check_same_thread=false"
        )
    )
    environment = os.environ | {
        "SUPERSET_CONFIG_PATH": str(config),
        "SUPERSET_HOME": str(home),
        "FLASK_APP": "superset",
        "PYTHONWARNINGS": "ignore",
    }
    # It would lead Superset to the modules of this project.
    environment.pop("PYTHONPATH", None)
    program = str(programs / "superset")
    admin = ["fab", "create-admin", "--username", USER, "--firstname", "a", "--lastname", "b"]
    for step in (["db", "upgrade"], [*admin, "--email", "a@example.com", "--password", password], ["init"]):
        print(f"superset {step[0]} …", flush=True)
        done = subprocess.run(
            [program, *step], env=environment, cwd=home, check=False, capture_output=True, text=True
        )
        if done.returncode:
            sys.exit(f"superset {step[0]}: {done.stderr[-2000:]}")
    port = free_port()
    with running_program([program, "run", "-p", str(port), "--with-threads"], environment, home):
        wait_for(lambda: answers(f"http://127.0.0.1:{port}/health"), 180)
        yield f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def running_program(command: list[str], environment: dict[str, str], directory: Path) -> Iterator[None]:
    """Run a program while the block lasts."""
    process = subprocess.Popen(
        command, env=environment, cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


def answers(address: str) -> bool:
    """Return whether a server answers at an address."""
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(address, timeout=10).is_success
    return False


def free_port() -> int:
    """Return a port on which no program listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def wait_for(condition: Any, seconds: float) -> None:
    """Wait until a condition holds; end the tour if it never does."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(f"expected within {seconds:g} s: {condition}")
        time.sleep(0.2)


def expect(found: Any, wanted: Any) -> None:
    """End the tour if an answer is not the expected one."""
    if found != wanted:
        sys.exit(f"expected {wanted}, found {found}")


def report(step: str, what: str) -> None:
    """Print a step and its result."""
    print(f"  {step:10} {what}", flush=True)


if __name__ == "__main__":
    main()
