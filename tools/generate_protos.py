"""Write the Python code of the protos anew: `make proto`.

What protoc generates imports its siblings by their place in the proto tree, which is the name of
our own package; here they are made to import one another where they are.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PROTOS = ROOT / "proto"
SOURCES = ROOT / "src"


class Tree(NamedTuple):
    """A directory of protos, and the package that holds the code of it."""

    protos: str
    package: str
    has_services: bool

    @property
    def generated(self) -> Path:
        """Where its code is."""
        return SOURCES.joinpath(*self.package.split("."))


API = Tree("mainspring/v1", "mainspring.api._generated", has_services=True)
ETCD = Tree("mainspring/etcd", "mainspring.adapters.etcd._generated", has_services=False)
TREES = (API, ETCD)


def generate(target: Path, tree: Tree = API) -> None:
    """Write all generated files of a tree into a directory that has none yet."""
    files = (PROTOS / tree.protos).glob("*.proto")
    sources = sorted(str(path.relative_to(PROTOS)) for path in files)
    module = tree.protos.replace("/", ".")
    sibling = re.compile(rf"^from {module} import (\w+) as (\w+)$", re.MULTILINE)
    with tempfile.TemporaryDirectory() as raw:
        out = Path(raw)
        services = [f"--grpc_python_out={out}"] if tree.has_services else []
        subprocess.run(
            [
                sys.executable,
                "-m",
                "grpc_tools.protoc",
                f"--proto_path={PROTOS}",
                f"--python_out={out}",
                f"--pyi_out={out}",
                *services,
                *sources,
            ],
            check=True,
        )
        target.mkdir(parents=True, exist_ok=True)
        (target / "__init__.py").write_text(
            '"""Written by tools/generate_protos.py from proto/; change the protos instead."""\n'
        )
        for path in sorted((out / tree.protos).iterdir()):
            text = sibling.sub(rf"from {tree.package} import \1 as \2", path.read_text())
            if path.name.endswith("_pb2_grpc.py"):
                # It has no types.
                text = f"# mypy: ignore-errors\n{text}"
            (target / path.name).write_text(text)


def main() -> None:
    for tree in TREES:
        for path in tree.generated.glob("*.py*"):
            if path.is_file():
                path.unlink()
        generate(tree.generated, tree)
        count = len(list(tree.generated.glob("*_pb2.py")))
        print(f"{count} protos are in {tree.generated.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
