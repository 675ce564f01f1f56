// node main.mjs: runs the tasks of handlers.mjs until SIGTERM or Ctrl-C.
import { handlers } from "./handlers.mjs";
import { Worker } from "./worker.mjs";

const env = process.env;
const worker = new Worker(env.MAINSPRING_GRPC ?? "127.0.0.1:8401", env.MAINSPRING_KEY, handlers, {
  worker_id: env.WORKER_ID ?? `node-${process.pid}`,
  queues: env.QUEUES?.split(",") ?? [],
  slots: Number(env.SLOTS ?? 10),
  lease_seconds: Number(env.LEASE_SECONDS ?? 60),
});
for (const signal of ["SIGTERM", "SIGINT"]) {
  process.once(signal, () => worker.drain(Number(env.DRAIN_SECONDS ?? 10)));
}
await worker.run();
