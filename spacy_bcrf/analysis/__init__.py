"""What one does with trained pipelines: functions that return dataclasses."""
