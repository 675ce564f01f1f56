"""Stands in for a mail server: delivers into the folder `outbox` and fails like the real thing."""

import smtplib
from email.message import EmailMessage
from pathlib import Path

OUTBOX = Path("outbox")
KNOWN = {"ada@example.com", "bob@example.com", "busy@example.com"}
BUSY_TIMES = 2


def deliver(mail: EmailMessage) -> None:
    """Deliver a mail, or raise what `smtplib` raises."""
    to, name = mail["To"], mail["Message-ID"].strip("<>")
    if to not in KNOWN:
        raise smtplib.SMTPRecipientsRefused({to: (550, b"no such mailbox")})
    OUTBOX.mkdir(exist_ok=True)
    if to.startswith("busy@") and len(list(OUTBOX.glob(f"{name}.busy-*"))) < BUSY_TIMES:
        count = len(list(OUTBOX.glob(f"{name}.busy-*")))
        (OUTBOX / f"{name}.busy-{count}").touch()
        raise smtplib.SMTPServerDisconnected("421 too busy, try again later")
    (OUTBOX / f"{name}.eml").write_bytes(bytes(mail))
