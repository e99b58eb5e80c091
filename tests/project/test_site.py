"""The documentation site: pages that link where the documents do, and ask for nothing outside."""

from pathlib import Path

import pytest

from scripts.site.check import trouble
from scripts.site.markdown_pages import list_for_models, plain_markdown
from scripts.site.pages import DECISIONS, NAVIGATION, gather, place, rewrite_links
from scripts.site.search_pages import page_text, page_weight
from tests.support.project_files import ROOT

NAMED = [path for group in NAVIGATION.values() for path in group]


def site(folder: Path, **pages: str) -> Path:
    for name, text in pages.items():
        (folder / f"{name}.html").write_text(text, "utf-8")
    return folder


def test_every_page_is_in_the_navigation_once() -> None:
    pages = [f"docs/{path.name}" for path in ROOT.glob("docs/*.md")]

    assert sorted(NAMED) == sorted([*pages, "CHANGELOG.md", "CONTRIBUTING.md", DECISIONS])


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("README.md", "[a](docs/guide.md#tools)", "[a](guide.md#tools)"),
        ("README.md", "[a](docs/adr)", "[a](adr/index.md)"),
        ("README.md", "![a](docs/report.png)", "![a](report.png)"),
        ("README.md", "[a](surecall/core/loop.py)", "[a](source/surecall/core/loop.py.md)"),
        ("docs/guide.md", "[a](../README.md)", "[a](index.md)"),
        ("docs/guide.md", "[a](snapshot.html)", "[a](unchanged:snapshot.html)"),
        ("docs/adr/0001-a.md", "[a](../guide.md)", "[a](../guide.md)"),
        ("docs/guide.md", "[a](https://b.example/c.md)", "[a](https://b.example/c.md)"),
        ("docs/guide.md", "[a](#tools)", "[a](#tools)"),
        ("README.md", "```\n[a](docs/b.md)\n```\n", "```\n[a](docs/b.md)\n```\n"),
    ],
)
def test_links_of_a_document_point_to_places_on_the_site(
    path: str, text: str, expected: str
) -> None:
    assert rewrite_links(text, path) == expected


def test_whatever_a_document_links_to_is_gathered(tmp_path: Path) -> None:
    gather(ROOT, tmp_path / "pages")
    shown = (tmp_path / "pages" / place("surecall/core/loop.py")).read_text("utf-8")

    assert (ROOT / "surecall/core/loop.py").read_text("utf-8").strip() in shown
    assert "0001-moves-not-coroutines.md" in (tmp_path / "pages/adr/index.md").read_text("utf-8")
    assert 'href="comparison.html#what-you-can-compare"' in (
        tmp_path / "pages/snapshot.html"
    ).read_text("utf-8")
    front = (tmp_path / "pages/index.md").read_text("utf-8")
    assert front.startswith((ROOT / "README.md").read_text("utf-8")[:500])
    assert "Using the runner <guide.md>" in front


def test_a_site_whose_links_lead_somewhere_has_no_trouble(tmp_path: Path) -> None:
    a = '<a href="b.html#here">b</a><a href="https://c.example">c</a><link href="a.css">'
    site(tmp_path, a=a, b='<h1 id="here">B</h1><a href="a.html">a</a><a href="#here">up</a>')
    (tmp_path / "a.css").write_text("p { background: url(data:x) }", "utf-8")

    assert trouble(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('<script src="https://cdn.example/a.js"></script>', "asks for https://cdn.example/a.js"),
        ('<link rel="preconnect" href="//fonts.example">', "asks for //fonts.example"),
        ('<img srcset="https://c.example/a.png 2x">', "asks for https://c.example/a.png"),
        ("<style>@import 'https://c.example/a';</style>", "asks for https://c.example/a"),
        ("<script>fetch('https://c.example/')</script>", "asks for https://c.example/"),
        ('<a href="b.html">b</a>', "links to b.html, which is not there"),
        ('<img src="b.png">', "links to b.png, which is not there"),
        ('<a href="#b">b</a>', "links to #b, which has no such place"),
    ],
)
def test_what_is_outside_or_missing_is_told(text: str, expected: str, tmp_path: Path) -> None:
    assert trouble(site(tmp_path, a=text)) == [f"a.html {expected}"]


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.css", "p{src:url('//f.example/a')}"), ("a.js", 'import("//f.example/a")')],
)
def test_styles_and_scripts_ask_for_nothing_either(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, "utf-8")

    assert trouble(tmp_path) == [f"{name} asks for //f.example/a"]


def test_a_guide_is_found_before_a_reference_and_a_decision_last() -> None:
    names = ["guide", "drift", "adr/0001-moves-not-coroutines"]

    assert sorted(names, key=page_weight, reverse=True) == names
    assert page_weight("CHANGELOG") == page_weight("source/surecall/core/loop.py")


def test_the_text_for_snippets_keeps_sections_and_leaves_out_what_is_no_text() -> None:
    page = (
        '<nav>menu</nav><article role="main"><section id="a"><h1>A<a class="headerlink" href="#a">'
        "\u00b6</a></h1><script>x()</script><p>1 &lt; 2</p></section></article><footer>end</footer>"
    )

    assert page_text(page) == '<div role="main"><section id="a">A 1 &lt; 2 </section></div>'


def test_a_page_as_markdown_has_nothing_that_only_sphinx_understands() -> None:
    hidden = "```{toctree}\n:hidden:\n\nA <a.md>\n```\n"
    shown = "```{toctree}\n:maxdepth: 1\n\n0001-a.md\n```\n"
    page = f"---\norphan: true\n---\n# A\n\n[b](unchanged:b.html)\n\n{hidden}{shown}"

    assert plain_markdown(page) == "# A\n\n[b](b.html)\n\n- [0001-a.md](0001-a.md)\n"


def test_the_list_for_models_links_every_page_of_the_navigation() -> None:
    listed = list_for_models()

    assert [path for path in NAMED if f"]({place(path)})" not in listed] == []
