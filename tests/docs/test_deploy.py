"""The files in `deploy/` name nothing that is not there: commands, settings, servers' options.

They are not run here: that takes Docker.
"""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import yaml  # type: ignore[import-untyped]

from fixtures.etcd import etcd_binary
from fixtures.valkey import ValkeyServer
from mainspring import __version__
from mainspring.adapters.postgres.embedded import DEFAULT_SETTINGS
from mainspring.cli.root import program
from mainspring.config import Settings, entries, load, shard_settings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
GIVEN = {"POSTGRES_PASSWORD": "secret1", "REDIS_PASSWORD": "secret2", "ETCD_IMAGE": "etcd:v3.6.16"}
ROLES = {"api": 2, "scheduler": 3, "worker": 3}
_VARIABLE = re.compile(r"(?<!\$)\$\{(\w+):\?[^}]+\}")
_SOURCE = re.compile(r"--mount=type=bind,source=([^,]+),")
_PINNED = re.compile(r"[\w./-]+:v?\d+\.\d+[\w.-]*")


@pytest.fixture(scope="module")
def text() -> str:
    return (DEPLOY / "compose.yaml").read_text()


@pytest.fixture(scope="module")
def services(text: str) -> dict[str, dict[str, Any]]:
    """The services, as Compose sees them with a filled-in `.env`."""
    filled = _VARIABLE.sub(lambda found: GIVEN[found[1]], text)
    found: dict[str, dict[str, Any]] = yaml.safe_load(filled)["services"]
    return found


@pytest.fixture(scope="module")
def ours(services: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {name: one for name, one in services.items() if one["image"].startswith("mainspring:")}


def settings_of(service: dict[str, Any], directory: Path) -> Settings:
    return load(environ=service["environment"], directory=directory)


def pairs(words: list[str], flag: str) -> dict[str, str]:
    """The `name=value` after each flag."""
    return dict(word.split("=", 1) for at, word in enumerate(words) if at and words[at - 1] == flag)


def test_there_are_as_many_of_each_as_it_says(services: dict[str, dict[str, Any]]) -> None:
    assert {name: services[name]["deploy"]["replicas"] for name in ROLES} == ROLES
    kinds = sorted(name.partition("-")[0] for name in services if name not in ROLES)
    assert kinds == ["etcd"] * 3 + ["migrate"] + ["postgres"] * 2 + ["redis"]


def test_secrets_are_given_and_every_image_has_a_version(
    text: str, services: dict[str, dict[str, Any]]
) -> None:
    assert set(_VARIABLE.findall(text)) == set(GIVEN)
    # With nothing else in braces, there is no default that someone could run with.
    assert text.count("${") == len(_VARIABLE.findall(text))
    example = (DEPLOY / "env.example").read_text()
    lines = dict(line.split("=", 1) for line in example.splitlines() if not line.startswith("#"))
    assert lines.keys() == GIVEN.keys()
    assert not lines["POSTGRES_PASSWORD"]
    assert not lines["REDIS_PASSWORD"]
    images = [one["image"] for one in services.values()] + [lines["ETCD_IMAGE"]]
    assert all(_PINNED.fullmatch(image) for image in images), images
    assert "/deploy/.env" in (ROOT / ".gitignore").read_text().splitlines()


def test_what_is_waited_for_has_a_health_check(services: dict[str, dict[str, Any]]) -> None:
    assert all("healthcheck" in one for name, one in services.items() if name != "migrate")
    for one in services.values():
        for name, wanted in one.get("depends_on", {}).items():
            if wanted["condition"] == "service_healthy":
                assert "healthcheck" in services[name]
            else:
                assert wanted["condition"] == "service_completed_successfully"
                assert services[name]["restart"] == "no"


def test_volumes_and_the_files_of_the_image_exist(text: str) -> None:
    whole = yaml.safe_load(_VARIABLE.sub("x", text))
    named = {
        volume.partition(":")[0]
        for one in whole["services"].values()
        for volume in one.get("volumes", [])
    }
    assert {name for name in named if not name.startswith(".")} == set(whole["volumes"])
    assert all((DEPLOY / name).exists() for name in named if name.startswith("."))
    image = (DEPLOY / "Dockerfile").read_text()
    used = _SOURCE.findall(image)
    assert "src" in used
    assert all((ROOT / name).exists() for name in used)
    # Only what is used is sent to the builder.
    first, *patterns = [
        line
        for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
        if not line.startswith("#")
    ]
    assert first == "*"
    assert {line for line in patterns if line.startswith("!")} == {f"!{name}" for name in used}
    assert all(_PINNED.fullmatch(base) for base in re.findall(r"^FROM (\S+)", image, re.MULTILINE))


def test_nothing_has_more_rights_than_it_needs(services: dict[str, dict[str, Any]]) -> None:
    image = (DEPLOY / "Dockerfile").read_text()
    # A number, which Kubernetes can tell from root; and signals reach the program itself.
    assert re.search(r"^USER [1-9]\d*$", image, re.MULTILINE)
    assert 'ENTRYPOINT ["mainspring"]' in image
    for name, one in services.items():
        assert one["security_opt"] == ["no-new-privileges:true"], name
        assert one["mem_limit"], name
        assert {"max-size", "max-file"} <= one["logging"]["options"].keys(), name
        assert all(port.startswith("127.0.0.1:") for port in one.get("ports", [])), name
        if not name.startswith(("postgres", "redis")):
            assert (one["read_only"], one["cap_drop"]) == (True, ["ALL"]), name


def test_commands_and_settings_are_ours(ours: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    variables = {entry.variable for entry in entries()}
    assert ours.keys() == {"migrate", *ROLES}
    assert {one["image"] for one in ours.values()} == {f"mainspring:{__version__}"}
    for name, one in ours.items():
        command = program.get_command(click.Context(program), one["command"][0])
        assert command is not None, name
        command.make_context(name, one["command"][1:])
        assert set(one["environment"]) <= variables
        settings = settings_of(one, tmp_path)
        assert [part.database_url.partition("@")[2] for part in shard_settings(settings)] == [
            "postgres-1:5432/mainspring",
            "postgres-2:5432/mainspring",
        ]
        assert (settings.coordination, settings.ready_queue) == ("etcd", "redis")
        grace = float(one["stop_grace_period"].removesuffix("s"))
        assert grace > settings.drain_seconds + settings.grace_seconds
        # Who probes asks where it is answered.
        if name in ROLES:
            port = settings.port if name == "api" else settings.health_port
            assert f"127.0.0.1:{port}/health/ready" in one["healthcheck"]["test"][-1]


def test_the_commands_at_the_top_are_ours(text: str) -> None:
    found = re.findall(r"^#   docker compose .* run --rm migrate (.+)$", text, re.MULTILINE)
    assert len(found) == 2
    for line in found:
        name, *words = line.split()
        command = program.get_command(click.Context(program), name)
        assert command is not None
        if isinstance(command, click.Group):
            command = command.commands[words.pop(0)]
        command.make_context(name, words)


def test_the_servers_know_what_they_are_told(
    services: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    for name in ("postgres-1", "postgres-2"):
        told = pairs(services[name]["command"], "-c")
        # The same that every server of these tests runs with.
        assert told.items() <= DEFAULT_SETTINGS.items()
    known = subprocess.run(
        [str(etcd_binary()), "--help"], capture_output=True, text=True, check=True
    ).stdout
    members = ",".join(f"etcd-{n}=http://etcd-{n}:2380" for n in (1, 2, 3))
    for name in ("etcd-1", "etcd-2", "etcd-3"):
        told = dict(word.split("=", 1) for word in services[name]["command"][1:])
        assert all(f"{flag} " in known for flag in told), told
        assert (told["--name"], told["--initial-cluster"]) == (name, members)
        assert told["--advertise-client-urls"] == f"http://{name}:2379"
    *told_redis, flag, password = services["redis"]["command"][1:]
    assert (flag, password) == ("--requirepass", "secret2")
    server = ValkeyServer(tmp_path / "valkey", *told_redis)
    server.start()
    try:
        assert "noeviction" in server.ask("CONFIG", "GET", "maxmemory-policy")
    finally:
        server.kill()


def test_the_guide_names_what_is_there() -> None:
    page = (ROOT / "docs" / "guides" / "cluster.md").read_text()
    done = subprocess.run(
        [sys.executable, "-m", "tools.cluster", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    flags = {
        word.partition("=")[0]
        for line in re.findall(r"make up-cluster ARGS=(?:'([^']+)'|(\S+))", page)
        for word in "".join(line).split()
        if word.startswith("--")
    }
    assert {"--check", "--idle"} <= flags
    assert all(f"{flag} " in done.stdout or f"{flag}]" in done.stdout for flag in flags), flags
    for line in re.findall(r"^docker compose .*$", page, re.MULTILINE):
        assert (ROOT / line.split()[3]).exists()
    for path, port in re.findall(r"path: (/\S+), port: (\d+)", page):
        assert path in {"/health/live", "/health/ready"}
        assert f"MAINSPRING_HEALTH_PORT={port}" in page
