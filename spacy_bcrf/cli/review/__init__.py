"""The page of `review`, and the annotation that it shows."""
