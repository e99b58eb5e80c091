"""What each setting of a run does: the sentences below the fields of `ToolCallingConfig`.

They are written there, where an editor shows them. Python does not keep them, so they are read from
the source, by those who print them; a run does not import this.
"""

import ast
import inspect
from functools import cache
from itertools import pairwise

from surecall.settings.config import ToolCallingConfig


@cache
def setting_docs() -> dict[str, str]:
    """Return the sentence of each setting, on one line, in the order of the fields."""
    (kind,) = ast.parse(inspect.getsource(ToolCallingConfig)).body
    docs: dict[str, str] = {}
    for field, below in pairwise(ast.iter_child_nodes(kind)):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(
                value=ast.Constant(value=str(text))
            ):
                docs[name] = " ".join(text.split())
            case _:
                pass
    return docs
