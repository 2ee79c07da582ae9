"""Weak supervision: sources of labels, their votes, and the merged annotation."""
