"""Make the virtual environment in .venv from a lock file; quick when nothing has changed.

Usage: python tools/set_up.py runtime|dev

Everything stays inside the checkout: pip's cache is off, and no file of the user's is read or
written beyond pip's own configuration.
"""

import compileall
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
# The development lock holds everything of the runtime lock, so it satisfies both.
SATISFIED_BY = {"runtime": ("runtime", "dev"), "dev": ("dev",)}


def main() -> int:
    wanted = sys.argv[1]
    lock = ROOT / "requirements" / f"{wanted}.lock"
    # Two runs of make at once: the second waits, and then finds the work done.
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if any(
            stamp(kind).is_file() and stamp(kind).read_text() == fingerprint(kind)
            for kind in SATISFIED_BY[wanted]
        ) and runs(PYTHON):
            return 0
        started = time.monotonic()
        print(f"Setting up .venv ({wanted}) with Python {sys.version.split()[0]} ...", flush=True)
        try:
            install(wanted, lock)
        except subprocess.CalledProcessError as error:
            print(f"Set-up failed: {' '.join(map(str, error.cmd))}", file=sys.stderr)
            return 1
        print(f"Set up in {time.monotonic() - started:.0f} s.", flush=True)
    return 0


def install(wanted: str, lock: Path) -> None:
    for kind in SATISFIED_BY:
        stamp(kind).unlink(missing_ok=True)
    pip = environment()
    options = [
        "--quiet",
        "--no-input",
        "--no-cache-dir",
        "--disable-pip-version-check",
        "--no-compile",
    ]
    run([*pip, "install", *options, "--require-hashes", "--only-binary=:all:", "-r", lock])
    run([*pip, "install", *options, "--no-build-isolation", "--no-deps", "--editable", ROOT])
    # Byte code now, in parallel, and whatever PYTHONDONTWRITEBYTECODE says: the processes of a
    # run start several times faster with it.
    run([PYTHON, Path(__file__).resolve(), "compile"])
    stamp(wanted).write_text(fingerprint(wanted))


def environment() -> list[str | Path]:
    """Make .venv unless a usable one is there; return the command that is its pip."""
    if not (runs(PYTHON) and (VENV / "pyvenv.cfg").is_file() and moved_from() == str(ROOT)):
        shutil.rmtree(VENV, ignore_errors=True)
        has_ensurepip = runs(sys.executable, "import ensurepip")
        run([sys.executable, "-m", "venv", *([] if has_ensurepip else ["--without-pip"]), VENV])
        (VENV / "checkout").write_text(str(ROOT))
    if runs(PYTHON, "import pip"):
        return [PYTHON, "-m", "pip"]
    return [sys.executable, "-m", "pip", "--python", PYTHON]


def moved_from() -> str:
    """Where .venv was made; its scripts name that path, so it cannot be moved or copied."""
    made_in = VENV / "checkout"
    return made_in.read_text() if made_in.is_file() else ""


def stamp(kind: str) -> Path:
    return VENV / f"stamp-{kind}"


def fingerprint(kind: str) -> str:
    digest = hashlib.sha256(f"{ROOT}\n".encode())
    for name in (f"requirements/{kind}.lock", "pyproject.toml", "tools/set_up.py"):
        digest.update((ROOT / name).read_bytes())
    return digest.hexdigest()


def runs(python: Path | str, code: str = "pass") -> bool:
    try:
        return (
            subprocess.run([python, "-c", code], check=False, capture_output=True).returncode == 0
        )
    except OSError:
        return False


def run(command: list[str | Path]) -> None:
    environ = {**os.environ, "PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0"}
    # A Python path of the caller's must not decide what pip finds installed.
    environ.pop("PYTHONPATH", None)
    environ.pop("PYTHONHOME", None)
    subprocess.run(command, check=True, env=environ, stdin=subprocess.DEVNULL)


def compile_all() -> int:
    for library in (VENV / "lib").glob("python3.*/site-packages"):
        compileall.compile_dir(library, quiet=2, workers=0)
    compileall.compile_dir(ROOT / "src", quiet=2, workers=0)
    return 0


if __name__ == "__main__":
    sys.exit(compile_all() if sys.argv[1] == "compile" else main())
