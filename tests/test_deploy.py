"""The files that deploy the service, as far as they can be checked without a container engine or systemd."""

from __future__ import annotations

import configparser
import re
import shlex
import tomllib

import pytest

from service.cli import parser_of
from tests.support.paths import PROJECT

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
