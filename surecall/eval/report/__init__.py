"""Figures and advice as files and pages."""
