"""A target for jobs that verifies that a call is from Belfry, and does its work
once however often it is called. Python 3.8 or later, no packages.

    export BELFRY_SECRET_HOOK=$(openssl rand -base64 32)
    python3 docs/receiver/receiver.py            # beside a server with the same variable
"""

import base64
import hashlib
import hmac
import http.server
import os
import sqlite3
import time

TOLERANCE = 300  # seconds that the time of a signature may be off
MAX_BODY = 64 << 10


def key_of(secret):
    return base64.b64decode(secret[6:] if secret.startswith("whsec_") else secret)


def verified(secret, headers, body, now):
    """Whether a request is signed as https://www.standardwebhooks.com says."""
    name, stamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not name or not stamp.isdigit() or abs(now - int(stamp)) > TOLERANCE:
        return False
    signed = f"{name}.{stamp}.".encode() + body
    want = b"v1," + base64.b64encode(hmac.new(key_of(secret), signed, hashlib.sha256).digest())
    given = headers.get("webhook-signature", "").split(" ")
    return any(hmac.compare_digest(want, s.encode()) for s in given)


def charge(db, key, body):
    """The work, which must not be done twice: its effect is in the database, in
    the transaction that also records the key."""
    db.execute("INSERT INTO charges VALUES (?, ?)", (key, body))
    print(f"charged for {key}: {body!r}", flush=True)


def once(db, key, body):
    with db:  # one transaction: the key and the effect are there, or neither is
        fresh = db.execute("INSERT INTO keys VALUES (?) ON CONFLICT DO NOTHING", (key,)).rowcount
        if fresh:
            charge(db, key, body)


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        length = int(self.headers.get("Content-Length") or 0)
        if length > MAX_BODY:
            return self.answer(413, "too large")
        body = self.rfile.read(length)
        if not verified(self.server.secret, self.headers, body, time.time()):
            return self.answer(401, "not signed by Belfry")
        # The signature covers webhook-id, which is the idempotency key.
        once(self.server.db, self.headers["webhook-id"], body)
        self.answer(200, "done")

    def answer(self, status, text):
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())


def main():
    server = http.server.HTTPServer(("127.0.0.1", 9000), Receiver)
    server.secret = os.environ["BELFRY_SECRET_HOOK"]
    server.db = sqlite3.connect(os.environ.get("RECEIVER_DB", "receiver.db"))
    server.db.executescript("CREATE TABLE IF NOT EXISTS keys (key TEXT PRIMARY KEY); CREATE TABLE IF NOT EXISTS charges (key TEXT, body BLOB);")
    server.serve_forever()


if __name__ == "__main__":
    main()
