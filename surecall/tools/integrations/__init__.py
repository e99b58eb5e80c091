"""Tools of other frameworks. Each module is loaded when its framework's tools are first used."""
