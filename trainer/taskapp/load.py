"""From `builtin:NAME`, `NAME`, `PACKAGE:DATASET` or `FILE.py` to an ASGI app (WIRE 4.4, task_app_path)."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from trainer.taskapp import auth
from trainer.taskapp.codes import clean
from trainer.taskapp.errors import TaskAppError
from trainer.taskapp.registry import builtin_factory, registered
from trainer.taskapp.server import TaskAppConfig, create_task_app

APP_FACTORIES = ("fastapi_app", "create_app", "build_app", "configure_app", "get_app", "app_factory")
KEY_HINT = "Set it to a secret of your choice, here and where the app is called from"


def load_task_app(spec: str) -> tuple[str, Any]:
    """(name, ASGI app) of `spec`. Raises `TaskAppError` that says what was looked for."""
    if spec.endswith(".py"):
        path = Path(spec).expanduser()
        if not path.is_file():
            raise TaskAppError(f"there is no file {spec}", "Give the path of the task app")
        return path.stem, _to_asgi(_app_of_module(_import(path), path), spec)
    name = spec.removeprefix("builtin:")
    return name, _to_asgi(builtin_factory(name)(), name)


def _import(path: Path) -> ModuleType:
    """Runs the file as a module; its folder comes first on the import path, as for a script."""
    path = path.resolve()
    module_spec = importlib.util.spec_from_file_location(path.stem, path)
    if module_spec is None or module_spec.loader is None:
        raise TaskAppError(f"{path.name} cannot be imported", "Give a Python file")
    module = importlib.util.module_from_spec(module_spec)
    sys.path.insert(0, str(path.parent))
    sys.modules.setdefault(path.stem, module)
    _guard(lambda: module_spec.loader.exec_module(module), f"{path.name} failed while it was loaded")
    return module


def _app_of_module(module: ModuleType, path: Path) -> Any:
    app = getattr(module, "app", None)
    if callable(app):
        return app
    for name in (*APP_FACTORIES, "build_config"):
        factory = getattr(module, name, None)
        if callable(factory):
            return _guard(factory, f"{name}() of {path.name} failed")
    for app_id in (getattr(module, "APP_ID", None), path.stem):
        if isinstance(app_id, str) and (factory := registered(app_id)):
            return _guard(factory, f"the factory registered as {app_id} failed")
    others = ", ".join(("app", *(f"{name}()" for name in APP_FACTORIES)))
    raise TaskAppError(
        f"{path.name} holds no task app",
        f"Define build_config(), which gives a TaskAppConfig; or {others}; or call register_task_app with its APP_ID",
    )


def _guard(function: Any, what: str) -> Any:
    """Calls a function of the user's file; what it raises is said with its line, not as a traceback."""
    try:
        return function()
    except TaskAppError:
        raise
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
        text = str(error)
        if isinstance(error, SyntaxError):  # the last frame is the import; its own text may end with file and line
            where = f" ({Path(error.filename).name}, line {error.lineno})" if error.filename else ""
            text = error.msg
        cause = clean(f"{type(error).__name__}: {text}")
        raise TaskAppError(f"{what}: {cause}{where}", "Correct the file and try again") from None


def _to_asgi(built: Any, spec: str) -> Any:
    if isinstance(built, TaskAppConfig):
        if built.require_api_key and not auth.valid_keys():
            raise TaskAppError("ENVIRONMENT_API_KEY is not set", KEY_HINT)
        return create_task_app(built)
    if not callable(built):
        raise TaskAppError(
            f"{spec} gives a {type(built).__name__}, not a task app",
            "Give an ASGI app or a TaskAppConfig",
        )
    return built
