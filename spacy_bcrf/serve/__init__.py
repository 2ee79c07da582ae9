"""The HTTP server, and the pages that commands write."""
