"""What a tool is made of."""

from surecall.tools.sources import is_instance_by_name
from surecall.values.errors import ConfigError


def test_an_exception_is_known_by_its_class_and_its_package() -> None:
    assert is_instance_by_name(ConfigError(""), "surecall", "SurecallError")
    assert not is_instance_by_name(ConfigError(""), "surecall", "ToolError")
    assert not is_instance_by_name(ConfigError(""), "langchain_core", "SurecallError")
