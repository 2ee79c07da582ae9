"""Independent implementations that the tests compare the product with."""
