// What happens in a session, as it happens. To look is no use of the session: nobody is woken or kept awake.

import { get, place, type Entry } from "./api";
import { channels } from "./channels";

/** Kinds that change what the page shows of a session. */
export const KINDS = [
  "command_started", "command_ended", "cell_started", "cell_ended", "waiting", "input", "lease", "attached",
  "detached", "shell_opened", "shell_closed", "shell_ended", "job_started", "job_ended", "process_exited", "oom",
  "kernel_died", "woken", "restarted", "life_ending", "sleep_failed", "refused",
];

const NEWEST = 300;

/** The entries of a session's journal up to now, and those to come, until it is left. */
export class SessionEvents {
  private channel = 0;
  private after = 0;
  private left = false;

  constructor(
    private readonly session: string,
    private readonly report: (entries: readonly Entry[]) => void,
    private readonly over: () => void,
  ) {}

  /** Read the newest entries, and follow if the session runs. */
  async begin(running: boolean, newest = NEWEST): Promise<void> {
    const entries = await get<Entry[]>(`${place("sessions", this.session)}/journal`, { limit: newest });
    if (this.left) return;
    for (const each of entries) this.after = Math.max(this.after, each.seq);
    this.report(entries);
    if (!running) return;
    this.channel = channels.open({
      opening: () => ({ call: "events", session: this.session, args: { after: this.after, kind: KINDS } }),
      event: (event, size) => {
        const entry = event as unknown as Entry;
        if (typeof entry.seq === "number") this.after = Math.max(this.after, entry.seq);
        this.report([entry]);
        channels.grant(this.channel, size + 200);
      },
      ended: () => {
        if (!this.left) this.over();
      },
    });
  }

  leave(): void {
    this.left = true;
    channels.close(this.channel);
  }
}
