"""Linear chains over sparse features: their learner, its rows, templates and files."""
