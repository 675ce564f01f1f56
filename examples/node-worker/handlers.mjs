// What this worker can run, by task type. A handler gets the payload and a context:
// `signal` (aborted when the task shall stop), `progress(value)`, `attempt` and `taskId`.
import { setTimeout as sleep } from "node:timers/promises";

export const handlers = {
  async greet({ name }) {
    if (!name) throw new TypeError("there is no name to greet");
    return { greeting: `Hello, ${name}!` };
  },

  async count({ to, pause = 100 }, context) {
    for (let n = 1; n <= to; n++) {
      await sleep(pause, undefined, { signal: context.signal });
      context.progress({ counted: n });
    }
    return to;
  },
};
