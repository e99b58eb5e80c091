"""Definition, validation, and registration of an application's tools."""
