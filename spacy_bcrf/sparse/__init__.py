"""Linear chains over boolean features, trained online."""
