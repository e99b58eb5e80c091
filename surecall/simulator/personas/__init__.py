"""Scripted models that follow the conversation."""
