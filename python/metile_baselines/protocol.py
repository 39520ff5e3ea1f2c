"""Requests and answers, one JSON object a line."""

import json
import os
import sys
import traceback

from .exchange import Exchange, TensorError

VERSION = 1


class Refusal(Exception):
    """A request that can't be served, for a reason that its sender can read."""

    kind = "refused"


class Unsupported(Refusal):
    """The library has no such thing."""

    kind = "unsupported"


class Channel:
    """The two pipes."""

    def __init__(self, requests, answers):
        self.requests = os.fdopen(requests, "rb")
        self.answers = os.fdopen(answers, "wb")
        self.longest = int(os.environ.get("METILE_LONGEST_LINE", 16 << 20))

    def read(self):
        """The next request, or None at the end."""
        line = self.requests.readline(self.longest + 1)
        if not line:
            return None
        if len(line) > self.longest:
            sys.exit(f"a request has more than {self.longest} bytes")
        return json.loads(line)

    def write(self, answer):
        # NaN is no JSON: an answer that holds one is our mistake, and is reported as such.
        self.answers.write(json.dumps(answer, allow_nan=False).encode() + b"\n")
        self.answers.flush()


def serve(name, channel, parts):
    """Says hello, then answers until the requests end. `parts` makes objects with `operations` (functions of the
    arguments and the exchange folder, by name), `versions` and `settings`."""
    exchange = Exchange()
    try:
        try:
            operations, versions, settings = {}, {}, {}
            for part in parts():
                operations.update(part.operations)
                versions.update(part.versions())
                settings.update(part.settings())
        except Exception as error:
            traceback.print_exc()
            channel.write({"id": 0, "error": described(error)})
            return
        channel.write(
            {
                "protocol": VERSION,
                "worker": name,
                "operations": sorted(operations),
                "versions": versions,
                "settings": settings,
            }
        )
        while (request := channel.read()) is not None:
            try:
                if request["op"] not in operations:
                    raise Unsupported(f"it has {', '.join(sorted(operations))}")
                answer = {"ok": operations[request["op"]](request["arguments"], exchange) or {}}
            except (Refusal, TensorError) as error:
                answer = {"error": described(error)}
            except Exception as error:
                traceback.print_exc()
                answer = {"error": described(error)}
            channel.write({"id": request["id"], **answer})
    finally:
        exchange.remove()


def described(error):
    kind = getattr(error, "kind", None) or type(error).__name__
    return {"kind": kind, "message": str(error)[:2000]}
