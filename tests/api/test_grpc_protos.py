"""The protos, what is generated from them, and the code behind them say the same."""

import importlib.util
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from google.protobuf.descriptor import EnumDescriptor

from mainspring.api._generated import queues_pb2, schedules_pb2, tasks_pb2, workers_pb2
from mainspring.api.lease_schemas import LeaseOut
from mainspring.api.rpc.messages import word
from mainspring.api.rpc.methods import FILES, TABLE, described
from mainspring.api.schemas import SubmittedOut
from mainspring.core.intake import TASK_FIELDS
from mainspring.core.limit_view import QueueLimitsView
from mainspring.core.schedule_view import Schedule
from mainspring.core.schedules import OnConflict
from mainspring.domain.cron import FoldRule, GapRule
from mainspring.domain.limits import Limit
from mainspring.domain.priority import Level
from mainspring.domain.retry import BackoffKind
from mainspring.domain.schedule import MisfireRule, OverlapRule, ScheduleStatus
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import CancelState, FailureKind, Task
from mainspring.domain.webhooks import Event
from mainspring.ports.branches import BranchState
from mainspring.ports.store import QueueState

ROOT = Path(__file__).parents[2]
GENERATED = ROOT / "src" / "mainspring" / "api" / "_generated"
ENUMS: dict[str, Iterable[str]] = {
    "TaskStatus": TaskStatus,
    "Level": Level,
    "BackoffKind": BackoffKind,
    "FailureKind": FailureKind,
    "ScheduleStatus": ScheduleStatus,
    "GapRule": GapRule,
    "FoldRule": FoldRule,
    "MisfireRule": MisfireRule,
    "OverlapRule": OverlapRule,
    "OnConflict": OnConflict,
    "WebhookEvent": Event,
    "CancelState": [CancelState.CANCELLED, CancelState.CANCELLING],
}


def enums() -> Iterator[EnumDescriptor]:
    for file in FILES:
        yield from file.enum_types_by_name.values()


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generator", ROOT / "tools/generate_protos.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_generated_code_is_that_of_the_protos(tmp_path: Path) -> None:
    generator().generate(tmp_path / "new")
    for path in sorted((tmp_path / "new").iterdir()):
        kept = GENERATED / path.name
        assert kept.exists(), "run `make proto`"
        assert kept.read_text() == path.read_text(), f"{path.name} is old; run `make proto`"
    there = {path.name for path in GENERATED.iterdir() if path.is_file()}
    assert there == {path.name for path in (tmp_path / "new").iterdir()}


def test_every_method_of_the_protos_is_in_the_table() -> None:
    assert set(TABLE) == {name for name, _ in described()}


def test_enums_have_the_words_of_the_domain() -> None:
    assert {enum.name for enum in enums()} == set(ENUMS)
    for enum in enums():
        words = {word(enum, value.number, "x") for value in enum.values}
        assert words - {None} == {str(member) for member in ENUMS[enum.name]}, enum.name


@pytest.mark.parametrize(
    ("message", "names"),
    [
        (tasks_pb2.NewTask, TASK_FIELDS),
        (tasks_pb2.Task, Task.__struct_fields__),
        (tasks_pb2.Submitted, SubmittedOut.__struct_fields__),
        (schedules_pb2.Schedule, Schedule.__struct_fields__),
        (queues_pb2.QueueState, QueueState.__struct_fields__),
        (queues_pb2.BranchState, BranchState.__struct_fields__),
        (queues_pb2.Limit, Limit.__struct_fields__),
        (queues_pb2.QueueLimits, QueueLimitsView.__struct_fields__),
        (workers_pb2.Lease, LeaseOut.__struct_fields__),
    ],
)
def test_messages_have_the_fields_of_the_rest_api(message: Any, names: tuple[str, ...]) -> None:
    assert set(message.DESCRIPTOR.fields_by_name) == set(names)


def test_the_library_is_loaded_only_where_it_is_served() -> None:
    script = (
        "import sys, mainspring, mainspring.cli.root, mainspring.wiring.api, "
        "mainspring.wiring.roles; print('grpc' in sys.modules, 'google.protobuf' in sys.modules)"
    )
    import subprocess

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "False"]
