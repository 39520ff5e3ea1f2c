"""The standard streams, which belong to the protocol. Imported before anything that could print or read."""

import os


def claim():
    """The requests' and the answers' descriptors. What libraries print goes to stderr from now on and can't come between
    the answers; what they read is empty."""
    answers, requests = os.dup(1), os.dup(0)
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return requests, answers
