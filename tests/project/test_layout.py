"""The layout: a folder is a layer, tests are where their module is, and the lists agree."""

import ast
import re
import tomllib
from pathlib import Path
from typing import Any, Final

import surecall
from tests.support.project_files import ROOT

SOURCE: Final = ROOT / "surecall"
MAX_ROOT, MAX_LAYERS, MAX_SUPPORT = 14, 9, 35
NOT_COUNTED = {"__init__.py", "__main__.py", "__pycache__", "py.typed"}

# Modules, or folders of modules, that have no test file of their own, and why.
REASONS: Final = {
    "simulator/faults/": "the properties in tests/simulator/faults run over every fault",
    "values/version.py": "it holds a number",
    "wire/call_styles.py": "it holds words",
    "wire/dialects/": "every dialect is read through the engine, and tested so",
}

# What a reader of the README may import.
DOORS: Final = {
    "surecall",
    "surecall.eval",
    "surecall.mcp",
    "surecall.otel",
    "surecall.proxy",
    "surecall.simulator",
    "surecall.testing",
}


def modules() -> list[Path]:
    """List the modules, relative to the package."""
    found = sorted(SOURCE.rglob("*.py"))
    return [path.relative_to(SOURCE) for path in found if not path.stem.startswith("__")]


def is_tested(module: Path) -> bool:
    folder = ROOT / "tests" / module.parent
    own = folder / f"test_{module.stem}.py"
    return own.exists() or any(folder.glob(f"test_{module.stem}_*.py"))


def is_covered(module: Path, entry: str) -> bool:
    name = module.as_posix()
    return name.startswith(entry) if entry.endswith("/") else name == entry


def root_names() -> list[str]:
    """Name the packages and modules of the root, as one imports them."""
    return sorted(path.stem for path in SOURCE.iterdir() if path.name not in NOT_COUNTED)


def contracts() -> list[dict[str, Any]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    found: list[dict[str, Any]] = project["tool"]["importlinter"]["contracts"]
    return found


def layers() -> list[list[str]]:
    """Read the layers of the package, the highest first."""
    (contract,) = [each for each in contracts() if each["name"] == "imports point down"]
    return [[name.strip() for name in row.split("|")] for row in contract["layers"]]


def drawing() -> list[str]:
    """Return the lines of the drawing in docs/architecture.md."""
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    return text.split("```")[1].splitlines()


def drawn_names() -> list[str]:
    first = [line.split()[0] for line in drawing() if line.strip()]
    return [word for word in first if word.endswith(("/", ".py"))]


# Where tests are


def test_a_module_has_its_tests_at_the_same_path_or_a_reason_not_to() -> None:
    untested = [module for module in modules() if not is_tested(module)]
    missing = [
        f"{module} has no tests/{module.parent}/test_{module.stem}.py"
        for module in untested
        if not any(is_covered(module, entry) for entry in REASONS)
    ]
    needless = [
        entry for entry in REASONS if not any(is_covered(module, entry) for module in untested)
    ]

    assert missing == []
    assert needless == [], "a reason is given, but nothing is missing"


def test_no_test_file_is_beside_the_packages_of_tests() -> None:
    assert [path.name for path in (ROOT / "tests").glob("test_*.py")] == []


def imported_modules(path: Path) -> set[str]:
    """Name the modules that a file imports, and what it imports from packages."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def test_no_file_imports_a_test_file() -> None:
    folders = ("tests", "bench", "proof", "scripts")
    found = [
        f"{path.relative_to(ROOT)} imports {name}"
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*.py"))
        for name in sorted(imported_modules(path))
        if re.match(r"tests\.(\w+\.)*test_", name)
    ]

    assert found == [], "what tests share is in tests/support"


def test_support_is_a_few_modules_of_a_subject() -> None:
    assert len(list((ROOT / "tests" / "support").rglob("*.py"))) <= MAX_SUPPORT


def imported(path: Path) -> set[str]:
    """Name what of the package a file imports: modules, or names that are no public ones."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        match node:
            case ast.Import():
                found |= {alias.name for alias in node.names}
            case ast.ImportFrom(module="surecall"):
                public = {*surecall.__all__}
                given = {alias.name for alias in node.names}
                found |= {f"surecall.{name}" for name in given - public}
            case ast.ImportFrom(module=str(module)):
                found.add(module)
            case _:
                pass
    return {name for name in found if name.partition(".")[0] == "surecall"}


def test_journeys_go_through_the_public_doors_alone() -> None:
    inside = {
        path.name: sorted(imported(path) - DOORS)
        for path in sorted((ROOT / "tests" / "journeys").glob("*.py"))
    }

    assert inside
    assert {name: found for name, found in inside.items() if found} == {}


# What the root holds


def test_the_root_of_the_package_can_be_taken_in_at_a_glance() -> None:
    assert len(root_names()) <= MAX_ROOT


def test_every_package_of_the_root_has_one_of_a_few_layers() -> None:
    (contract,) = [each for each in contracts() if each["name"] == "imports point down"]

    assert contract["exhaustive"]
    assert contract["exhaustive_ignores"] == ["__main__"]
    assert len(layers()) <= MAX_LAYERS
    assert sorted(name for row in layers() for name in row) == root_names()


def test_the_drawing_shows_what_the_root_holds() -> None:
    root = [path for path in SOURCE.iterdir() if path.name not in NOT_COUNTED]

    assert sorted(drawn_names()) == sorted(
        f"{path.name}/" if path.is_dir() else path.name for path in root
    )


def test_the_drawing_goes_from_the_top_layer_to_the_bottom() -> None:
    height = {name: level for level, row in enumerate(layers()) for name in row}
    levels = [height[name.removesuffix("/").removesuffix(".py")] for name in drawn_names()]

    assert levels == sorted(levels)


def test_the_drawing_has_a_line_between_what_waits_and_what_is_pure() -> None:
    lines = drawing()
    (runtime,) = [at for at, line in enumerate(lines) if line.startswith("runtime/")]

    assert [at for at, line in enumerate(lines) if line.startswith("---")] == [runtime + 1]


# Lists name packages; a module that is named by itself has its reason beside it


def bare(path: Path, entries: list[str]) -> list[str]:
    """Return the entries that have no comment on their line."""
    lines = path.read_text("utf-8").splitlines()
    return [
        entry
        for entry in entries
        if not any("#" in line.partition(f'"{entry}"')[2] for line in lines)
    ]


def is_module(dotted: str) -> bool:
    return (ROOT / (dotted.replace(".", "/") + ".py")).exists()


def test_contracts_of_purity_name_packages_or_say_why_not() -> None:
    purity = [each for each in contracts() if each["type"] == "forbidden"]
    named = [
        entry
        for each in purity
        for entry in (*each["source_modules"], *each.get("ignore_imports", ()))
    ]
    alone = [entry for entry in named if is_module(entry.partition(" -> ")[0])]

    assert purity
    assert bare(ROOT / "pyproject.toml", alone) == []


def test_the_coverage_gate_names_packages_or_says_why_not() -> None:
    path = ROOT / "scripts" / "coverage_gate.py"
    (edge,) = [
        ast.literal_eval(node.value)
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "EDGE"
    ]

    assert bare(path, [entry for entry in edge if not entry.endswith("/*")]) == []
    assert [entry for entry in edge if not any(ROOT.glob(entry))] == []
