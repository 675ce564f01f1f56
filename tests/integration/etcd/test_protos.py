"""The code of etcd's protos is what the protos say."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_the_generated_code_is_up_to_date(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("protos", ROOT / "tools" / "generate_protos.py")
    assert spec is not None
    assert spec.loader is not None
    protos = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(protos)
    protos.generate(tmp_path / "made", protos.ETCD)
    for made in sorted((tmp_path / "made").iterdir()):
        assert made.read_text() == (protos.ETCD.generated / made.name).read_text(), (
            f"{made.name} differs; run make proto"
        )
