"""Bridges to other tools. Each module needs an extra."""
