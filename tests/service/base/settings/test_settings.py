"""Settings: one table for the command line, the environment and the file."""

from __future__ import annotations

import argparse
import pickle
from pathlib import Path

import pytest

from service.base.settings import (
    SETTINGS,
    InvalidSettingError,
    Setting,
    Settings,
    add_arguments,
    bytes_of,
    keys_of,
    path_map_of,
    read_config,
    settings_of,
)

# Another value than the default, for each type.
OTHER: dict[type, str | int | float] = {str: "other", int: 7, float: 7.5}


def other(setting: Setting) -> str | int | float | bool:
    return not setting.default if setting.kind is bool else OTHER[setting.kind]


def value(settings: Settings, setting: Setting) -> object:
    return getattr(getattr(settings, setting.group), setting.name)


def write(tmp_path: Path, text: str) -> str:
    path = tmp_path / "savepointdb.toml"
    path.write_text(text)
    return str(path)


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, "port = 1\ntimeout_s = 2\nhost = 'a'\nallow_anonymous = true\nroots = ['x=/y']\n")

    found = settings_of(
        {"config": path, "port": 3},
        {"SAVEPOINTDB_PORT": "2", "SAVEPOINTDB_HOST": "b", "SAVEPOINTDB_AUDIT_LOG": "yes"},
    )

    assert found == Settings.of(port=3, host="b", timeout_s=2.0, allow_anonymous=True, audit_log=True)
    assert settings_of({}, {"SAVEPOINTDB_CONFIG": path}).server.port == 1
    assert read_config(path).roots == ("x=/y",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prot = 1", "expected a setting, found prot; is it port?"),
        ("port = '1'", "port: expected a value of type int, found '1'"),
        ("port = true", "port: expected a value of type int, found True"),
        ("audit_log = 1", "audit_log: expected a value of type bool"),
        ("roots = 'x'", "expected roots as a list"),
        ("= 1", "expected TOML"),
        ("[port]\na = 1", "port: expected a value of type int"),
    ],
)
def test_an_error_in_a_file_is_reported(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidSettingError, match=message.replace("?", r"\?")):
        settings_of({"config": write(tmp_path, text)}, {})


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettingError, match="expected a file of settings"):
        settings_of({"config": str(tmp_path / "none.toml")}, {})


@pytest.mark.parametrize("text", ["maybe", "", "2"])
def test_a_flag_of_the_environment_is_true_or_false(text: str) -> None:
    with pytest.raises(InvalidSettingError, match="SAVEPOINTDB_AUDIT_LOG"):
        settings_of({}, {"SAVEPOINTDB_AUDIT_LOG": text})


def test_settings_come_from_the_command_line_then_the_environment() -> None:
    environment = {"SAVEPOINTDB_PORT": "9000", "SAVEPOINTDB_TIMEOUT_S": "5", "OTHER": "x"}

    found = settings_of({"port": 1, "host": None, "root": ["x"]}, environment)

    assert found == Settings.of(port=1, timeout_s=5.0)
    with pytest.raises(InvalidSettingError, match="SAVEPOINTDB_PORT"):
        settings_of({}, {"SAVEPOINTDB_PORT": "many"})


def test_path_maps_of_the_environment_and_the_command_line() -> None:
    settings = settings_of({}, {"SAVEPOINTDB_PATH_MAP": "s3://a=/b; hdfs://n:1/x=file:/y"})

    assert path_map_of({"path_map": ["s3://a=/c", "/k=v/d=/e=f"]}, settings) == {
        "s3://a": "/c",
        "hdfs://n:1/x": "file:/y",
        "/k=v/d": "/e=f",
    }
    with pytest.raises(InvalidSettingError, match="expected OLD=NEW, found 'nonsense'"):
        path_map_of({"path_map": ["nonsense"]}, Settings())


@pytest.mark.parametrize(("text", "value"), [("true", True), ("0", False), ("No", False)])
def test_settings_that_are_switches(text: str, value: bool) -> None:
    assert settings_of({}, {"SAVEPOINTDB_ALLOW_HTTP": text}).storage.allow_http is value


def test_a_switch_is_on_or_off() -> None:
    with pytest.raises(InvalidSettingError, match="SAVEPOINTDB_ALLOW_HTTP"):
        settings_of({}, {"SAVEPOINTDB_ALLOW_HTTP": "perhaps"})


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_a_setting_has_one_name_everywhere(tmp_path: Path, setting: Setting) -> None:
    expected = other(setting)
    toml = repr(expected).lower() if setting.kind is bool else repr(expected)
    path = write(tmp_path, f"{setting.key} = {toml}\n")
    parser = argparse.ArgumentParser()
    add_arguments(parser, [setting.key])
    option = [setting.option] if setting.kind is bool else [setting.option, str(expected)]

    assert value(Settings.of(**{setting.key: expected}), setting) == expected
    assert value(settings_of({}, {setting.variable: str(expected)}), setting) == expected
    assert value(settings_of({"config": path}, {}), setting) == expected
    if setting.key != "path_map":
        assert value(settings_of(vars(parser.parse_args(option)), {}), setting) == expected


def test_a_key_keeps_its_name_and_prefix_of_group() -> None:
    assert (SETTINGS["spark_master"].group, SETTINGS["spark_master"].name) == ("spark", "master")
    assert SETTINGS["spark_master"].option == "--spark-master"
    assert SETTINGS["spark_master"].variable == "SAVEPOINTDB_SPARK_MASTER"
    assert keys_of("cache") == ("cache", "cache_directory", "cache_bytes")


def test_every_help_text_is_a_sentence() -> None:
    assert [
        key
        for key, setting in SETTINGS.items()
        if not setting.meaning.endswith(".") or not setting.meaning[0].isupper()
        if not setting.meaning.startswith(("on or off", "text, or json"))
    ] == []


def test_the_options_of_a_parser_are_in_groups() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser, ["max_rows", "port", "host"])

    text = parser.format_help().partition("options:")[2]

    assert text.index("HTTP server:") < text.index("--host HOST") < text.index("--port PORT")
    assert text.index("queries and answers:") < text.index("--max-rows ROWS")


def test_settings_travel_to_another_process() -> None:
    settings = Settings.of(threads=3, temp_directory="/tmp/x")

    assert pickle.loads(pickle.dumps(settings)) == settings
    assert settings.replaced({"threads": 4}) == Settings.of(threads=4, temp_directory="/tmp/x")


@pytest.mark.parametrize(
    ("text", "size_bytes"), [("4GB", 4 * 10**9), ("512MiB", 512 << 20), ("1.5k", 1500), ("10", 10)]
)
def test_a_size_is_a_number_with_a_unit(text: str, size_bytes: int) -> None:
    assert bytes_of(text) == size_bytes


def test_a_text_that_is_no_size_is_refused() -> None:
    with pytest.raises(InvalidSettingError, match="expected a size such as 4GB"):
        bytes_of("much")
