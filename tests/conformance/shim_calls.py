"""A hook of pytest for plugins: a case that passes without a call of ours is skipped."""

import sys

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call():
    called = []

    def watch(frame, event, arg):
        if frame.f_globals.get("__name__", "").partition(".")[0] in ("bcrf", "spacy_bcrf"):
            called.append(frame)
            sys.setprofile(None)

    sys.setprofile(watch)
    try:
        result = yield
    finally:
        sys.setprofile(None)
    if not called:
        pytest.skip("it calls nothing of ours")
    return result
