"""Write the Python code of the protos anew: `make proto`.

What protoc generates imports its siblings by their place in the proto tree, which is the name of our own package; here
they are made to import one another where they are.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROTOS = ROOT / "proto"
GENERATED = ROOT / "src" / "mainspring" / "api" / "_generated"
PACKAGE = "mainspring.api._generated"
_SIBLING = re.compile(r"^from mainspring\.v1 import (\w+) as (\w+)$", re.MULTILINE)


def generate(target: Path) -> None:
    """Write all generated files into a directory that has none yet."""
    sources = sorted(str(path.relative_to(PROTOS)) for path in PROTOS.rglob("*.proto"))
    with tempfile.TemporaryDirectory() as raw:
        out = Path(raw)
        subprocess.run(
            [
                sys.executable,
                "-m",
                "grpc_tools.protoc",
                f"--proto_path={PROTOS}",
                f"--python_out={out}",
                f"--pyi_out={out}",
                f"--grpc_python_out={out}",
                *sources,
            ],
            check=True,
        )
        target.mkdir(parents=True, exist_ok=True)
        (target / "__init__.py").write_text(
            '"""Written by tools/generate_protos.py from proto/; change the protos instead."""\n'
        )
        for path in sorted((out / "mainspring" / "v1").iterdir()):
            text = _SIBLING.sub(rf"from {PACKAGE} import \1 as \2", path.read_text())
            (target / path.name).write_text(text)


def main() -> None:
    for path in GENERATED.glob("*.py*"):
        if path.is_file():
            path.unlink()
    generate(GENERATED)
    print(f"{len(list(GENERATED.glob('*_pb2.py')))} protos are in {GENERATED.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
