"""Puts a generated text between the two marks of its name: `<!-- demo -->` and `<!-- /demo -->`."""


def with_part(document: str, name: str, text: str) -> str:
    """Return a document with another text between the marks."""
    before, begin, rest = document.partition(f"<!-- {name} -->\n")
    _, end, after = rest.partition(f"<!-- /{name} -->\n")
    if not end:
        raise ValueError(f"the document has no marks <!-- {name} --> and <!-- /{name} -->")
    return f"{before}{begin}{text}\n{end}{after}"
