"""Registered Thinc layers: heads, encoders and the models of components."""
