"""The model catalog: what it lists, what it says about strangers, and how it is extended."""

import copy
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import surecall
from surecall.settings.catalog import (
    WORKAROUNDS,
    CatalogModel,
    ModelCatalog,
    SamplingCatalog,
    WorkaroundRule,
    canonical_workaround,
)
from surecall.values.errors import ConfigError

BUILTIN = ModelCatalog.builtin()

DEEPSEEK = ("deepseek_openrouter_compat",)
GEMINI = ("gemini_openrouter_compat",)
TAGS = ("content_tag_tool_call_fallback",)


def ids(expression: str) -> list[str]:
    return [model.id for model in BUILTIN.select(expression)]


def test_the_packaged_catalog_is_read_once() -> None:
    assert ModelCatalog.builtin() is BUILTIN


def test_the_packaged_catalog_lists_seventeen_models_in_order() -> None:
    assert len(BUILTIN.models) == 17
    assert BUILTIN.models[0].id == "deepseek/deepseek-v3.2:nitro"
    assert BUILTIN.models[-1].id == "moonshotai/kimi-k2.5:nitro"


@pytest.mark.parametrize("model", BUILTIN.models, ids=lambda model: model.id)
def test_everything_a_packaged_entry_names_exists_and_fits(model: CatalogModel) -> None:
    assert set(model.workarounds) <= set(WORKAROUNDS)
    assert model.recommended in {"yes", "conditional", "no"}
    assert model.tags
    assert model.notes
    assert model.profiles
    for profile in model.profiles:
        chosen = SamplingCatalog.builtin().for_model(model.id, profile)
        assert profile in [each.id for each in chosen]


def test_every_workaround_is_put_to_use() -> None:
    listed = [model.workarounds for model in BUILTIN.models]
    ruled = [rule.workarounds for rule in BUILTIN.rules]
    assert {name for names in (*listed, *ruled) for name in names} == set(WORKAROUNDS)


@pytest.mark.parametrize(
    ("recommended", "count"),
    [("yes", 9), ("conditional", 3), ("no", 5)],
)
def test_the_recommendations_are_those_of_the_measured_table(recommended: str, count: int) -> None:
    assert sum(model.recommended == recommended for model in BUILTIN.models) == count


def test_an_id_tells_the_base_and_the_provider() -> None:
    model = CatalogModel("google/gemini-2.5-flash:nitro:x", tags=("gemini",))

    assert (model.base_id, model.provider) == ("google/gemini-2.5-flash", "google")
    assert model.names == (model.id, model.base_id, "google", "gemini")


def test_an_id_without_a_slash_has_no_provider() -> None:
    model = CatalogModel("qwen3:30b")

    assert model.provider == ""
    assert model.names == ("qwen3:30b", "qwen3")


def test_a_provider_without_one_of_its_models_can_be_picked() -> None:
    assert ids("google,!google/gemini-3-pro-preview:*") == [
        "google/gemini-2.5-flash:nitro",
        "google/gemini-3-flash-preview:nitro",
    ]


def test_all_models_but_some_can_be_picked() -> None:
    rest = ids("all,!minimax")

    assert len(rest) == 15
    assert not [model for model in rest if model.startswith("minimax/")]


def test_a_model_can_be_picked_by_its_base_id() -> None:
    assert ids("OPENAI/gpt-5.2") == ["openai/gpt-5.2:nitro"]


def test_a_mistyped_model_is_answered_with_near_names() -> None:
    with pytest.raises(ConfigError, match=r'"opnai/gpt-5\.2"; did you mean "openai/gpt-5\.2"'):
        ids("opnai/gpt-5.2")


@pytest.mark.parametrize(
    ("model_id", "expected"),
    [
        pytest.param("qwen/qwen3-235b-a22b-2507:nitro", TAGS, id="listed"),
        pytest.param("qwen/qwen3-235b-a22b-2507", TAGS, id="listed-with-a-suffix"),
        pytest.param("qwen/qwen3-235b-a22b-2507:free", TAGS, id="listed-with-another-suffix"),
        pytest.param("Qwen/Qwen3-235B-A22B-2507", TAGS, id="listed-in-another-case"),
        pytest.param("qwen/qwen3-30b-a3b-instruct-2507", (), id="listed-without-workarounds"),
        pytest.param("minimax/minimax-m2-her:free", ("tool_use_disabled",), id="tools-off"),
        pytest.param("deepseek/deepseek-v4", DEEPSEEK, id="rule-deepseek"),
        pytest.param("google/gemini-9", GEMINI, id="rule-gemini"),
        pytest.param("google/gemma-3", (), id="rule-gemini-is-not-all-of-google"),
        pytest.param("someone/Big-Reasoner-v2", DEEPSEEK, id="rule-any-case"),
        pytest.param("deepseek/deepseek-reasoner", DEEPSEEK, id="two-rules-one-workaround"),
        pytest.param("google/gemini-reasoner", GEMINI + DEEPSEEK, id="two-rules-in-order"),
        pytest.param("acme/unheard-of", (), id="unknown"),
        pytest.param("", (), id="blank"),
    ],
)
def test_a_model_gets_the_workarounds_of_its_entry_or_of_the_rules(
    model_id: str, expected: tuple[str, ...]
) -> None:
    assert BUILTIN.workarounds_for(model_id) == expected


def test_an_entry_is_found_by_id_then_without_suffix_then_by_kinship() -> None:
    nitro, plain, free = CatalogModel("a/b:nitro"), CatalogModel("a/b"), CatalogModel("a/b:free")

    assert ModelCatalog((nitro, plain, free)).find("a/b:free") == free
    assert ModelCatalog((nitro, plain, free)).find("a/b:beta") == plain
    assert ModelCatalog((nitro, free)).find("a/b:beta") == nitro
    assert ModelCatalog((nitro, free)).find("a/c") is None
    assert ModelCatalog((upper := CatalogModel("A/B:x"),)).find("a/b:beta") == upper


def test_a_catalog_indexes_its_models_once(monkeypatch: pytest.MonkeyPatch) -> None:
    indexed: list[str] = []

    def key(model: CatalogModel) -> str:
        indexed.append(model.id)
        return model.id.casefold()

    monkeypatch.setattr("surecall.settings.catalog._model_key", key)
    catalog = ModelCatalog((CatalogModel("a/b"), CatalogModel("c/d:x")))
    indexed.clear()
    found = [catalog.find(name) for name in ("a/b", "c/d", "e/f", "a/b:free")]

    assert [model and model.id for model in found] == ["a/b", "c/d:x", None, "a/b"]
    assert indexed == ["a/b", "c/d:x"]


def test_the_index_is_no_part_of_the_catalog() -> None:
    fresh, used = (ModelCatalog((CatalogModel("a/b"),)) for _ in range(2))
    assert used.find("a/b") == CatalogModel("a/b")

    assert used == fresh
    assert hash(used) == hash(fresh)
    assert repr(used) == repr(fresh)
    assert msgspec.json.encode(used) == msgspec.json.encode(fresh)
    assert msgspec.structs.asdict(used) == msgspec.structs.asdict(fresh)
    assert copy.deepcopy(used) == used


def test_a_replaced_catalog_finds_its_own_models() -> None:
    old = ModelCatalog((CatalogModel("a/b"),))
    assert old.find("a/b") is not None
    new = msgspec.structs.replace(old, models=(CatalogModel("c/d"),))

    assert new.find("a/b") is None
    assert new.find("c/d") == CatalogModel("c/d")


def test_workarounds_are_canonicalized_when_a_catalog_is_built_and_never_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rules = (WorkaroundRule("a/*", ("Gemini-Compat",)), WorkaroundRule("*", GEMINI + TAGS))
    catalog = ModelCatalog((CatalogModel("a/b", ("deepseek-compat",)),), rules)
    monkeypatch.setattr("surecall.settings.catalog.canonical_workaround", None)

    assert catalog.workarounds_for("a/b") == DEEPSEEK
    assert catalog.workarounds_for("a/c") == GEMINI + TAGS


EXTENSION = """
[[model]]
id = "acme/rocket"
workarounds = ["Content-Tag-Fallback", "content_tag_tool_call_fallback"]
tags = ["local"]
recommended = "yes"
profiles = ["default"]
notes = "Ours."

[[model]]
id = "deepseek/deepseek-v3.2:nitro"

[[rule]]
pattern = "acme/*"
workarounds = ["tools_disabled"]

[[rule]]
pattern = "DeepSeek/*"
workarounds = []
"""


def test_a_catalog_of_ones_own_extends_the_packaged_one() -> None:
    extended = BUILTIN.extended_by(ModelCatalog.from_toml(EXTENSION))

    assert len(extended.models) == 18
    assert [model.id for model in extended.select("local")] == ["acme/rocket"]
    assert extended.models[0] == CatalogModel("deepseek/deepseek-v3.2:nitro")
    assert len(BUILTIN.models) == 17


def test_ones_own_entries_and_rules_replace_the_packaged_ones() -> None:
    extended = BUILTIN.extended_by(ModelCatalog.from_toml(EXTENSION))

    assert extended.workarounds_for("acme/rocket") == TAGS
    assert extended.workarounds_for("acme/plane") == ("tool_use_disabled",)
    assert extended.workarounds_for("deepseek/deepseek-v3.2") == ()
    assert extended.workarounds_for("deepseek/deepseek-v4") == ()
    assert extended.workarounds_for("deepseek/deepseek-reasoner") == DEEPSEEK


def test_a_listed_model_is_not_touched_by_rules() -> None:
    rule = WorkaroundRule("a/*", ("deepseek_compat",))

    assert ModelCatalog((CatalogModel("a/b"),), (rule,)).workarounds_for("a/b") == ()


def test_an_empty_file_is_an_empty_catalog() -> None:
    assert ModelCatalog.from_toml("") == ModelCatalog()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param('[[model]]\nid = "a"\ntag = ["b"]', "unknown field `tag`", id="key"),
        pytest.param('[[model]]\nid = "a"\ntags = "b"', "Expected `array`", id="type"),
        pytest.param('[[model]]\nid = "a"\nrecommended = "maybe"', "Invalid enum", id="verdict"),
        pytest.param(
            '[[model]]\nid = "a"\nworkarounds = ["gemni_compat"]',
            r'model 1 \("a"\): unknown workaround "gemni_compat"; did you mean',
            id="workaround",
        ),
        pytest.param(
            '[[rule]]\npattern = "a*"\nworkarounds = ["nope"]',
            'rule 1: unknown workaround "nope"; known: "deepseek_openrouter_compat", ',
            id="workaround-of-a-rule",
        ),
        pytest.param(
            '[[rule]]\npattern = "a*"\nworkarounds = []\nwhy = ""', "field `why`", id="rule-key"
        ),
        pytest.param('[[rule]]\npattern = "a*"', "missing .*`workarounds`", id="bare-rule"),
        pytest.param(
            '[[model]]\nid = "a"\n[[model]]\nid = "A"', '"a" is defined twice', id="same-id"
        ),
        pytest.param(
            '[[rule]]\npattern = "a"\nworkarounds = []\n' * 2,
            '"a" is defined twice',
            id="same-rule",
        ),
        pytest.param('[[model]]\nid = ""', "invalid name", id="blank-id"),
        pytest.param(
            '[[model]]\nid = "a"\ntags = ["b,c"]', 'invalid name "b,c"', id="comma-in-tag"
        ),
        pytest.param('[[profile]]\nid = "a"', 'unknown table "profile"', id="other-table"),
    ],
)
def test_a_bent_catalog_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ModelCatalog.from_toml(text)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("deepseek_compat", "deepseek_openrouter_compat"),
        ("gemini_compat", "gemini_openrouter_compat"),
        ("content_tag_fallback", "content_tag_tool_call_fallback"),
        ("disable_tool_use", "tool_use_disabled"),
        ("tools_disabled", "tool_use_disabled"),
        (" Gemini-OpenRouter-Compat ", "gemini_openrouter_compat"),
        *((name, name) for name in WORKAROUNDS),
    ],
)
def test_a_workaround_has_one_name_and_several_synonyms(name: str, expected: str) -> None:
    assert canonical_workaround(name) == expected


def test_an_unknown_workaround_is_an_error_with_candidates() -> None:
    with pytest.raises(ConfigError, match='did you mean "tool_use_disabled"'):
        canonical_workaround("tool_use_disable")


def test_a_catalog_and_its_entries_cannot_be_changed() -> None:
    for value in (BUILTIN, BUILTIN.models[0], BUILTIN.rules[0]):
        assert value.__struct_config__.frozen


def test_an_entry_survives_a_round_trip_through_json() -> None:
    entry = BUILTIN.models[0]

    assert msgspec.json.decode(msgspec.json.encode(entry), type=CatalogModel) == entry


@pytest.mark.processes
def test_importing_the_catalogs_does_not_load_the_toml_reader() -> None:
    code = (
        "import sys, surecall.settings.catalog, surecall.settings.catalog;"
        "sys.exit('tomllib' in sys.modules)"
    )
    root = Path(surecall.__file__).parents[1]

    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0
