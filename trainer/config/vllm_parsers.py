"""Names that vllm.tool_call_parser may have."""

import ast
from importlib.util import find_spec
from pathlib import Path

OURS = ("hermes", "llama-json", "qwen")  # the formats that the trainer reads itself
_TABLE = "_TOOL_PARSERS_TO_REGISTER"


def vllm_parsers() -> list[str] | None:
    """The tool call parsers of the installed vLLM, by its source: to import it takes seconds, and torch. None: it is
    not installed, or keeps them elsewhere."""
    spec = find_spec("vllm")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        try:
            tree = ast.parse((Path(folder) / "tool_parsers/__init__.py").read_text(encoding="utf-8"))
        except (OSError, ValueError, SyntaxError):
            continue
        for node in tree.body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            named = any(isinstance(target, ast.Name) and target.id == _TABLE for target in targets)
            if named and isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
                keys = [key.value for key in node.value.keys if isinstance(key, ast.Constant)]
                return sorted(key for key in keys if isinstance(key, str)) or None
    return None
