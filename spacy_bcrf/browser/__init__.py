"""Files of trained chains for `js/`, which runs them in a browser."""
