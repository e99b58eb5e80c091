"""Scripted models that follow a conversation."""
