"""The guide to gRPC, command by command; grpcurl, which is not here, by what it would send."""

import json
import shlex
from pathlib import Path

import pytest
from google.protobuf.json_format import ParseDict
from google.protobuf.message_factory import GetMessageClass

from api.test_grpc_node import installed
from docs.console import terminal
from mainspring.api.rpc.methods import described

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guides" / "grpc.md"


@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.timeout(300)
def test_the_guide_works_as_shown(tmp_path: Path) -> None:
    (tmp_path / "node_modules").symlink_to(installed() / "node_modules")
    (tmp_path / "proto").symlink_to(ROOT / "proto")
    with terminal(tmp_path, ROOT) as opened:
        opened.run(PAGE.read_text())


def test_what_grpcurl_is_shown_to_send_is_there() -> None:
    methods = {f"mainspring.v1.{name.replace('.', '/')}": method for name, method in described()}
    calls = [
        shlex.split(line) for line in PAGE.read_text().splitlines() if line.startswith("grpcurl")
    ]
    sent = [(call[-1], call[call.index("-d") + 1]) for call in calls if "-d" in call]
    assert len(sent) == 3
    for name, data in sent:
        message = GetMessageClass(methods[name].input_type)()
        ParseDict(json.loads(data), message)
