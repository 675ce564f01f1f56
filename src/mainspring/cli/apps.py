"""Finding the app that `--app MODULE:APP` names."""

import importlib
import sys
import traceback
from pathlib import Path

from mainspring.app import Mainspring
from mainspring.domain.errors import AppNotFound
from mainspring.domain.values import shown


def load_app(name: str) -> Mainspring:
    """Import and return an app; modules are also looked for in the working directory.

    Raises `AppNotFound` with the place of the error when the module cannot be imported.
    """
    module_name, colon, attribute = name.partition(":")
    if not module_name or (colon and not attribute):
        raise AppNotFound(
            f"app is {shown(name)}; write it as MODULE:APP, such as myproject.tasks:app"
        )
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    module = _imported(module_name)
    if not attribute:
        return _only_app(module_name, module)
    app = getattr(module, attribute, None)
    if not isinstance(app, Mainspring):
        what = "has no such name" if app is None else f"has {shown(app)} there"
        raise AppNotFound(
            f"app {shown(name)} is not found: the module {what}; name a variable that holds a "
            "Mainspring()"
        )
    return app


def _imported(module_name: str) -> object:
    try:
        return importlib.import_module(module_name)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and _is_part(error.name, module_name):
            message = (
                f"there is no module {module_name!r} in the working directory or the Python path"
            )
            raise AppNotFound(message) from None
        place = traceback.extract_tb(error.__traceback__)[-1]
        raise AppNotFound(
            f"module {module_name!r} cannot be imported: {type(error).__name__}: {error} "
            f"({place.filename}, line {place.lineno})"
        ) from error


def _is_part(missing: str | None, module_name: str) -> bool:
    return missing is not None and f"{module_name}.".startswith(f"{missing}.")


def _only_app(module_name: str, module: object) -> Mainspring:
    found = {
        id(value): (name, value)
        for name, value in vars(module).items()
        if isinstance(value, Mainspring)
    }
    if len(found) == 1:
        return next(iter(found.values()))[1]
    names = ", ".join(sorted(name for name, _ in found.values())) or "none"
    raise AppNotFound(
        f"module {module_name!r} has to have one app or you name it, as {module_name}:app; "
        f"it has: {names}"
    )
