// Notices by this tab while it is open and not looked at: for those who want no push, or cannot have it.

import type { Entry, SessionInfo } from "./api";
import { SessionEvents } from "./session-events";
import { asks, line, seconds } from "./texts";

const WANTED = "holdfast-desktop-notices";
const SETTLE = 2_000;
const LONG = 60;
const MOST_FOLLOWED = 60;
const MOST_NAMES = 200;

interface Followed {
  events: SessionEvents;
  session: SessionInfo;
  commands: Map<string, string>;
  waiting: Map<string, number>;
  since: number;
}

/** Follows all running sessions while notices by this tab are wanted. */
export class DesktopNotices {
  private readonly followed = new Map<string, Followed>();

  get wanted(): boolean {
    return localStorage.getItem(WANTED) === "yes" && "Notification" in window && Notification.permission === "granted";
  }

  /** Turn them on, which asks the person; return whether they are on. */
  async turn(on: boolean): Promise<boolean> {
    if (on && "Notification" in window) await Notification.requestPermission();
    localStorage.setItem(WANTED, on ? "yes" : "no");
    if (!this.wanted) this.watch([]);
    return this.wanted;
  }

  /** Follow these sessions, as far as they run, and leave others. */
  watch(sessions: readonly SessionInfo[]): void {
    const running = this.wanted ? sessions.filter((each) => each.state === "running").slice(0, MOST_FOLLOWED) : [];
    const ids = new Set(running.map((each) => each.id));
    for (const [id, each] of this.followed) {
      if (ids.has(id)) continue;
      this.leave(id);
      const now = sessions.find((other) => other.id === id);
      if (now?.state === "dead") this.show(each.session, "died", `${line(now.name, 80)} has died`, "");
    }
    for (const session of running) if (!this.followed.has(session.id)) this.follow(session);
  }

  private follow(session: SessionInfo): void {
    const events = new SessionEvents(session.id, (entries) => entries.forEach((each) => this.heard(session.id, each)), () => this.leave(session.id));
    const since = Date.now() / 1000 - 1;
    this.followed.set(session.id, { events, session, commands: new Map(), waiting: new Map(), since });
    events.begin(true, 1).catch(() => this.leave(session.id));
  }

  private leave(id: string): void {
    const found = this.followed.get(id);
    this.followed.delete(id);
    found?.events.leave();
    for (const timer of found?.waiting.values() ?? []) clearTimeout(timer);
  }

  private heard(id: string, entry: Entry): void {
    const found = this.followed.get(id);
    if (!found || entry.at < found.since) return;
    const { session, commands, waiting } = found;
    const name = line(session.name, 80);
    const place = String(entry["job"] ?? entry["shell"] ?? "");
    if (entry.kind === "command_started") {
      commands.set(String(entry["id"]), line(entry["command"], 120));
      for (const first of commands.keys()) if (commands.size > MOST_NAMES) commands.delete(first);
    } else if (entry.kind === "waiting") {
      const state = (entry["state"] ?? {}) as Record<string, unknown>;
      const title = `${name}: ${line(state["command"], 60) || "a program"} waits for ${asks(line(state["detail"], 20))}`;
      clearTimeout(waiting.get(place));
      waiting.set(place, window.setTimeout(() => this.show(session, "waiting", title, line(state["prompt"], 120)), SETTLE));
    } else if (["input", "command_ended", "job_ended"].includes(entry.kind)) {
      clearTimeout(waiting.get(place));
      waiting.delete(place);
    }
    if (["command_ended", "cell_ended", "job_ended"].includes(entry.kind)) {
      const lasted = Number(entry["duration"]) || 0;
      if (lasted < LONG) return;
      const bad = entry.kind === "cell_ended" ? entry["status"] !== "ok" : Boolean(entry["signal"]) || entry["exit_code"] !== 0;
      const what = commands.get(String(entry["id"])) ?? line(entry["command"] ?? entry.kind.replace("_ended", ""), 120);
      this.show(session, bad ? "failed" : "ended", `${name}: ${bad ? "failed" : "ended"} after ${seconds(lasted)}`, what);
    }
  }

  private show(session: SessionInfo, kind: string, title: string, body: string): void {
    if (!this.wanted || (!document.hidden && document.hasFocus())) return;
    try {
      const made = new Notification(title, { body, tag: `${session.id} ${kind}` });
      made.onclick = () => {
        focus();
        location.hash = `#/s/${encodeURIComponent(session.name)}`;
        made.close();
      };
    } catch {
      // A phone's browser has notifications of service workers only: `push` is for those.
    }
  }
}

export const desktopNotices = new DesktopNotices();
