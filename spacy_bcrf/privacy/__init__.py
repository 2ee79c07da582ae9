"""De-identification of texts and streams."""
