"""Examples in docstrings."""

import doctest


def check_example(holder, name):
    """Fail unless the docstring has an example, and its examples run."""
    found = doctest.DocTestFinder(recurse=False).find(holder, name, module=False, globs={})
    assert found and found[0].examples, f"help({name}) has no example"
    failures = []
    doctest.DocTestRunner().run(found[0], out=failures.append)
    assert not failures, "".join(failures)
