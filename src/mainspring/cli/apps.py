"""Finding the app that `--app MODULE:APP` names."""

import importlib
import sys
import traceback
from pathlib import Path
from typing import Final

from mainspring.app import Mainspring
from mainspring.cli.output import escaped
from mainspring.core.registry import Registry
from mainspring.domain.errors import AppNotFound
from mainspring.domain.values import clip_text, shown

_SAID_BYTES_MAX: Final = 500
_OURS: Final = Path(__file__).resolve().parents[1]


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


def registry_of(name: str | None) -> Registry | None:
    """Return the handlers of an app that may be named; raises as `load_app` does."""
    return None if name is None else load_app(name).registry


def _imported(module_name: str) -> object:
    try:
        return importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and _is_part(error.name, module_name):
            message = (
                f"there is no module {module_name!r} in the working directory or the Python path"
            )
            raise AppNotFound(message) from None
        raise AppNotFound(
            f"module {module_name!r} cannot be imported: {_said(error)} ({_place(error)})"
        ) from error


def _said(error: BaseException) -> str:
    """Return an error on one line, whatever its text is."""
    kind = type(error).__name__
    try:
        said = error.msg if isinstance(error, SyntaxError) else str(error)
    except Exception:  # noqa: BLE001 - any class may have any __str__
        return kind
    return escaped(" ".join(clip_text(f"{kind}: {said}", _SAID_BYTES_MAX).split()))


def _place(error: BaseException) -> str:
    """Return where the error is: in the user's own files, if it passed through them."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if _is_own(frame.filename)]
    place = (own or frames)[-1]
    return f"{place.filename}, line {place.lineno}"


def _is_own(filename: str) -> bool:
    path = Path(filename)
    is_installed = "site-packages" in path.parts or _OURS in path.parents
    return path.is_relative_to(Path.cwd()) and not is_installed


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
