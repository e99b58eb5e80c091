"""The tools an application offers."""
