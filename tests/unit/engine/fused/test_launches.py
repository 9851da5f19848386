"""Every launch gives a kernel what it asks for; read from the sources, since Triton may be
missing."""

import ast
from pathlib import Path

import fairseq_hrt.engine.fused as fused

FOLDER = Path(fused.__file__).parent


def test_kernels_that_start_early_are_told_whether_they_may():
    trees = {path.name: ast.parse(path.read_text("utf-8")) for path in FOLDER.glob("*.py")}
    asking = {
        node.name
        for name, tree in trees.items()
        if name.endswith("_kernels.py")
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and "EARLY" in [own.arg for own in node.args.args]
    }
    launched = set()
    for name, tree in trees.items():
        for node in ast.walk(tree):
            # kernel[grid](…)
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript)):
                continue
            kernel = getattr(node.func.value, "id", "")
            tells = any(
                own.arg is None and getattr(getattr(own.value, "func", None), "id", "") == "early"
                for own in node.keywords
            )
            assert tells == (kernel in asking), f"{name}: {kernel}"
            launched.add(kernel)
    # The others are parts of kernels.
    assert {"few_rows", "some_rows", "one_token", "choose_of_blocks", "close_rows"} <= launched
