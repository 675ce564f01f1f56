"""Submit three mails and say what became of each: sent, sent after retries, and given up."""

import asyncio

from mails import app, send_mail


async def main() -> None:
    async with app:
        mails = [
            await send_mail.submit(to=to, subject="Your order", body="It is on its way.")
            for to in ("ada@example.com", "busy@example.com", "bob@exmaple.com")
        ]
        for mail in mails:
            task = await mail.wait(timeout=60)
            if task.status == "completed":
                print(f"sent    {task.result['to']} on attempt {task.result['attempts']}")
            else:
                print(f"{task.status}  {task.last_error}")


asyncio.run(main())
