"""The documentation of each setting: the text below its field, where an editor shows it.

Python drops this text, so it is parsed from the source. Only the generated reference needs it.
"""

import ast
import inspect
from functools import cache
from itertools import pairwise

from surecall.settings.overlay import Settings


@cache
def setting_docs(kind: type[Settings]) -> dict[str, str]:
    """Return the text of each setting of a class, on one line, in the order of the fields."""
    (source,) = ast.parse(inspect.getsource(kind)).body
    docs: dict[str, str] = {}
    for field, below in pairwise(ast.iter_child_nodes(source)):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(
                value=ast.Constant(value=str(text))
            ):
                docs[name] = " ".join(text.split())
            case _:
                pass
    return docs
