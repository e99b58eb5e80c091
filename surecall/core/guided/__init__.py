"""Guided calling for small models: reply schemas and grounded arguments."""
