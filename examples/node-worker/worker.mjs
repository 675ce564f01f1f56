// A worker of Mainspring: one stream for leases, heartbeats and ends; see proto/mainspring/v1.
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import grpc from "@grpc/grpc-js";
import loader from "@grpc/proto-loader";

const PROTOS = process.env.MAINSPRING_PROTOS ?? fileURLToPath(new URL("../../proto", import.meta.url));
const definition = loader.loadSync("mainspring/v1/workers.proto", {
  includeDirs: [PROTOS],
  keepCase: true,
  longs: String, // A fencing token may be larger than any exact number of JavaScript.
  oneofs: true,
  defaults: true,
});
const { WorkerService } = grpc.loadPackageDefinition(definition).mainspring.v1;
const log = (...words) => console.error(new Date().toISOString(), ...words);

export class Worker {
  #running = new Map(); // What runs here, by task id.
  #unanswered = new Map(); // Ends that the server has not answered, by task id.
  #stream = null;
  #leaving = false;

  constructor(address, key, handlers, hello) {
    const options = { "grpc.keepalive_time_ms": 20_000 }; // A dead server is noticed.
    this.client = new WorkerService(address, grpc.credentials.createInsecure(), options);
    this.metadata = new grpc.Metadata();
    if (key) this.metadata.set("authorization", `Bearer ${key}`);
    this.handlers = handlers;
    this.hello = { ...hello, task_types: Object.keys(handlers) };
  }

  // Works until it was drained. A lost stream is opened again, and what was running goes on.
  async run() {
    for (;;) {
      const status = await this.#converse();
      if (this.#leaving && !this.#running.size && !this.#unanswered.size) break;
      log(`stream ended: ${status.details || "OK"}; connecting again`);
      await sleep(500 + 500 * Math.random());
    }
    this.client.close();
  }

  // Takes no more work, lets what runs finish, and hands the rest back.
  async drain(seconds) {
    this.#leaving = true;
    this.#say({ goodbye: {} });
    const deadline = Date.now() + seconds * 1000;
    while (this.#running.size && Date.now() < deadline) await sleep(50);
    for (const { lease, controller } of this.#running.values()) {
      this.#end(lease, { release: {} });
      controller.abort();
    }
  }

  async #converse() {
    const stream = (this.#stream = this.client.Work(this.metadata));
    const status = new Promise((resolve) => stream.on("status", resolve));
    stream.on("error", () => {}); // The status says the same.
    stream.on("data", (message) => this[`_${message.message}`]?.(message[message.message]));
    stream.write({ hello: this.hello });
    for (const end of this.#unanswered.values()) stream.write(end);
    if (this.#leaving) stream.write({ goodbye: {} });
    const ended = await status;
    clearInterval(this.beating);
    this.#stream = null;
    return ended;
  }

  _welcome({ heartbeat_seconds }) {
    log(`working on ${this.hello.task_types.join(", ")}`);
    const beat = () => this.#say({ heartbeat: { leases: [...this.#running.values()].map(refOf) } });
    this.beating = setInterval(beat, heartbeat_seconds * 1000);
    beat();
  }

  async _lease(lease) {
    const controller = new AbortController();
    this.#running.set(lease.task_id, { lease, controller });
    const timer = setTimeout(() => controller.abort("timeout"), lease.timeout * 1000);
    const context = {
      signal: controller.signal,
      attempt: Number(lease.attempt),
      taskId: lease.task_id,
      progress: (value) => this.#say({ progress: { ...refOf({ lease }), progress: JSON.stringify(value) } }),
    };
    try {
      const result = await this.handlers[lease.task_type](JSON.parse(lease.payload), context);
      this.#end(lease, { complete: { result: JSON.stringify(result ?? null) } });
    } catch (error) {
      const { reason } = controller.signal;
      const kind = reason === "timeout" ? "FAILURE_KIND_TIMEOUT" : "FAILURE_KIND_ERROR";
      const failure = { error: String(error), traceback: String(error?.stack ?? ""), kind };
      this.#end(lease, { fail: { ...failure, cancelled: reason === "cancelled" } });
    } finally {
      clearTimeout(timer);
    }
  }

  _stop({ task_id, lost }) {
    const one = this.#running.get(task_id);
    if (lost) this.#running.delete(task_id); // Whoever owns it now ends it.
    one?.controller.abort(lost ? "lost" : "cancelled");
  }

  _renewed({ leases }) {
    for (const { task_id, held, cancel_requested } of leases) {
      if (!held || cancel_requested) this._stop({ task_id, lost: !held });
    }
  }

  _ended({ task_id, accepted }) {
    if (!accepted) log(`the end of ${task_id} came too late`);
    this.#unanswered.delete(task_id);
  }

  _refused({ code, message, task_id }) {
    log(`refused: ${message} (${code})`);
    const isOutage = /unavailable|outcome_unknown/.test(code);
    if (!isOutage) this.#unanswered.delete(task_id);
    else if (this.#unanswered.has(task_id)) setTimeout(() => this.#say(this.#unanswered.get(task_id)), 1000);
  }

  #end(lease, end) {
    if (!this.#running.delete(lease.task_id)) return; // It was lost, or handed back.
    const [kind] = Object.keys(end);
    const message = { [kind]: { ...refOf({ lease }), ...end[kind] } };
    this.#unanswered.set(lease.task_id, message);
    this.#say(message);
  }

  #say(message) {
    if (message && this.#stream) this.#stream.write(message);
  }
}

function refOf({ lease }) {
  return { task_id: lease.task_id, fencing_token: lease.fencing_token };
}
