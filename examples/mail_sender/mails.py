"""The app: a task that sends a mail, tries again while that can help, and gives up otherwise."""

import smtplib
from email.message import EmailMessage

import post_office

from mainspring import Backoff, Fail, Mainspring, TaskContext

app = Mainspring()


# Waits 0.2, 0.4, 0.8 and 1.6 s between attempts, plus up to a quarter at random, so that this is
# quick to watch. For real mail leave `backoff` out: 2 s, doubling up to 5 minutes.
@app.task("send_mail", timeout=30, max_retries=4, backoff=Backoff(base_seconds=0.2))
def send_mail(ctx: TaskContext, to: str, subject: str, body: str = "") -> dict[str, object]:
    """Send one mail. Plain `def` handlers run in a thread, so blocking is fine."""
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "shop@example.com", to, subject
    # A task may run twice if a machine dies at a bad moment. The id stays the same, so the
    # receiving side can tell that it is the same mail.
    mail["Message-ID"] = f"<{ctx.task_id}@shop.example.com>"
    mail.set_content(body)
    try:
        # With a real server: `with smtplib.SMTP("localhost") as server: server.send_message(mail)`
        post_office.deliver(mail)
    except smtplib.SMTPRecipientsRefused as refused:
        # Trying again cannot help: straight to the dead letters, with the reason.
        (code, text) = refused.recipients[to]
        raise Fail(f"{to} refused: {code} {text.decode()}") from refused
    # Every other error, such as a server that is busy or away, is raised and tried again.
    return {"to": to, "attempts": ctx.attempt}
