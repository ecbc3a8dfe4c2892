"""The files that deploy the service, as far as they can be checked without a container engine or systemd."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import tomllib
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from catalog import Catalog, Root
from service.base.settings import Settings
from service.cli import parser_of
from service.doors.app import create_app
from service.doors.cli.serve import write_savepoints
from tests.support.paths import PROJECT
from tests.support.serving import listening

yaml = pytest.importorskip("yaml")


@pytest.fixture
def services() -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = yaml.safe_load((PROJECT / "docker-compose.yml").read_text())[
        "services"
    ]
    return found


def image_home() -> str:
    user = re.search(r"^USER (\w+)$", (PROJECT / "Dockerfile").read_text(), re.MULTILINE)
    assert user is not None
    return f"/home/{user[1]}"


def test_nothing_but_a_volume_hides_what_the_image_has_compiled(
    services: dict[str, dict[str, object]],
) -> None:
    service = services["savepointdb"]
    places = [str(volume).split(":")[1] for volume in service["volumes"] if str(volume).startswith("cache:")]  # type: ignore[attr-defined]

    assert places == [f"{image_home()}/.cache"]
    assert [place for place in service["tmpfs"] if str(place).startswith(image_home())] == []  # type: ignore[attr-defined]


def test_superset_gets_its_driver_into_its_own_environment(services: dict[str, dict[str, object]]) -> None:
    superset = services["superset"]

    assert "pip install" not in str(superset["command"])
    assert ". /app/.venv/bin/activate && uv pip install trino" in str(superset["build"])


def test_the_commands_of_the_files_are_commands(services: dict[str, dict[str, object]]) -> None:
    words = shlex.split(str(services["savepointdb"]["command"]))

    assert parser_of().parse_args(words).root == ["/savepoints"]


def test_what_the_doctor_finds_stops_no_service() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string((PROJECT / "docs" / "deploy" / "savepointdb.service").read_text())

    assert unit["Service"]["ExecStartPre"].startswith("-")
    assert "doctor-env --config" in unit["Service"]["ExecStartPre"]


def test_the_image_gets_every_package_of_the_wheel() -> None:
    wheel = re.search(r"^packages = \[(.*)\]$", (PROJECT / "pyproject.toml").read_text(), re.MULTILINE)
    assert wheel is not None
    kept = {line[1:] for line in (PROJECT / ".dockerignore").read_text().split() if line.startswith("!")}

    assert set(re.findall(r'"(\w+)"', wheel[1])) <= kept


def test_the_workflow_runs_ci_and_publishes_what_was_tried() -> None:
    workflow = yaml.safe_load((PROJECT / ".github" / "workflows" / "ci.yml").read_text())
    triggers = workflow[True]  # YAML 1.1 takes the word `on` for a boolean
    test, build, publish = (workflow["jobs"][name] for name in ("test", "build", "publish"))
    commands = [step.get("run", "") for step in build["steps"]]

    assert set(triggers) == {"push", "pull_request"}
    assert triggers["push"]["tags"] == ["v*"]
    assert ".ci/run" in [step.get("run") for step in test["steps"]]
    assert any("scripts/try-release" in command for command in commands)
    assert not any("${{" in command for command in commands)
    assert publish["needs"] == ["test", "build"]
    assert "refs/tags/v" in publish["if"]
    assert (workflow["permissions"], publish["permissions"]) == ({"contents": "read"}, {"id-token": "write"})
    assert not any("run" in step for step in publish["steps"])


def test_a_release_is_tried_on_every_python_that_the_package_names() -> None:
    package = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    workflow = yaml.safe_load((PROJECT / ".github" / "workflows" / "ci.yml").read_text())
    (setup,) = [
        step["with"]
        for step in workflow["jobs"]["build"]["steps"]
        if "python-version" in step.get("with", {})
    ]
    script = re.search(
        r"^VERSIONS = \((.*)\)$", (PROJECT / "scripts" / "try-release").read_text(), re.MULTILINE
    )
    found = re.findall(r":: (3\.\d+)$", "\n".join(package["classifiers"]), re.MULTILINE)

    assert script is not None
    assert found == ["3.11", "3.12", "3.13", "3.14"]
    assert setup["python-version"].split() == re.findall(r'"(.*?)"', script[1]) == found


def test_a_tag_gives_its_minor_version_a_site_beside_those_of_others() -> None:
    docs = yaml.safe_load((PROJECT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]["docs"]
    site = (PROJECT / "mkdocs.yml").read_text()
    commands = "\n".join(step.get("run", "") for step in docs["steps"])

    # Only a tag is published, and what is not published has no site.
    assert docs["needs"] == "publish"
    assert "mike deploy --push --update-aliases" in commands
    assert "provider: mike" in site
    assert "${{" not in commands


def test_the_changelog_has_a_section_of_what_is_unreleased() -> None:
    headings = re.findall(r"^## (.*)$", (PROJECT / "CHANGELOG.md").read_text(), re.MULTILINE)

    assert headings[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", heading) for heading in headings[1:])


# ---- Prometheus and Grafana ----

DEPLOY = PROJECT / "docs" / "deploy"
METRIC = re.compile(r"\b(?:savepointdb|process)_[a-z_]+")


def expressions() -> list[str]:
    """The queries of the alerts and of the dashboard."""
    alerts = yaml.safe_load((DEPLOY / "alerts.yml").read_text())
    board = json.loads((DEPLOY / "grafana.json").read_text())
    return [
        *(rule["expr"] for group in alerts["groups"] for rule in group["rules"]),
        *(target["expr"] for panel in board["panels"] for target in panel["targets"]),
        *(str(one["query"]) for one in board["templating"]["list"]),
    ]


def test_alerts_and_the_dashboard_name_metrics_of_the_service(tmp_path: Path) -> None:
    write_savepoints(tmp_path / "demo")
    (tmp_path / "rules.sql").write_text("-- rule: none\nSELECT 1")
    catalog = Catalog([Root(path=str(tmp_path / "demo" / "orders"))])
    settings = Settings.of(rules=str(tmp_path / "rules.sql"), flink="http://127.0.0.1:1")
    with listening(create_app(settings, catalog), starts=False) as address:
        text = httpx.get(f"{address}/metrics").text
    families = list(text_string_to_metric_families(text))
    # A histogram has no sample before its first query.
    known = {sample.name for family in families for sample in family.samples}
    known |= {f"{family.name}_bucket" for family in families if family.type == "histogram"}
    known |= {f"{family.name}_total" for family in families if family.type == "counter"}
    known |= {family.name for family in families if family.type == "gauge"}
    named = {name for text in expressions() for name in METRIC.findall(text)}

    assert len(named) > 10
    assert named - known == set()


def test_the_rules_of_alerts_are_those_of_prometheus() -> None:
    groups = yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]

    assert len({rule["alert"] for rule in rules}) == len(rules)
    assert {key for rule in rules for key in rule} <= {"alert", "expr", "for", "labels", "annotations"}
    assert all(rule["labels"]["severity"] in ("page", "ticket") for rule in rules)


def test_the_codes_of_alerts_are_codes_of_errors() -> None:
    (codes,) = re.findall(r'code=~"([A-Z_|]+)"', "".join(expressions()))
    known = (PROJECT / "service" / "base" / "errors.py").read_text()

    assert [code for code in codes.split("|") if not re.search(rf'"{code}"', known)] == []


def test_the_panels_of_the_dashboard_do_not_overlap() -> None:
    panels = json.loads((DEPLOY / "grafana.json").read_text())["panels"]
    cells = [
        (x, y)
        for at in (panel["gridPos"] for panel in panels)
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]

    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
