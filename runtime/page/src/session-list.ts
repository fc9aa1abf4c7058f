// All sessions with their state at a glance.

import { html, LitElement, nothing } from "lit";

import { get, place, type SessionInfo, type ShellInfo } from "./api";
import { SessionEvents } from "./session-events";
import { age, asks, line, seconds } from "./texts";

/** Sessions whose events are followed at once; further ones show only whether they run. */
const MOST_FOLLOWED = 60;
const SETTLE = 150;

interface Watched {
  events: SessionEvents;
  shells: readonly ShellInfo[];
  timer: number;
}

/** Whether a session sleeps: it is suspended, and wakes on use. */
export function stateOf(session: SessionInfo): string {
  return session.state === "suspended" && session.lifetime?.asleep ? "asleep" : session.state;
}

export function waitingShell(shells: readonly ShellInfo[]): ShellInfo | undefined {
  return shells.find((each) => each.observed?.state === "waiting");
}

export class SessionList extends LitElement {
  static override properties = { sessions: { attribute: false } };
  declare sessions: readonly SessionInfo[];
  private readonly watched = new Map<string, Watched>();

  constructor() {
    super();
    this.sessions = [];
  }

  protected override createRenderRoot(): HTMLElement {
    return this;
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    for (const id of [...this.watched.keys()]) this.unwatch(id);
  }

  protected override willUpdate(): void {
    const running = this.sessions.filter((each) => each.state === "running").slice(0, MOST_FOLLOWED);
    const ids = new Set(running.map((each) => each.id));
    for (const id of [...this.watched.keys()]) if (!ids.has(id)) this.unwatch(id);
    for (const id of ids) if (!this.watched.has(id)) this.watch(id);
  }

  private watch(id: string): void {
    const events = new SessionEvents(id, () => this.look(id), () => this.unwatch(id));
    this.watched.set(id, { events, shells: [], timer: 0 });
    events.begin(true, 1).catch(() => this.unwatch(id));
  }

  private unwatch(id: string): void {
    const found = this.watched.get(id);
    if (found === undefined) return;
    this.watched.delete(id);
    clearTimeout(found.timer);
    found.events.leave();
  }

  /** Ask for its shells, once for all that happens in a moment. */
  private look(id: string): void {
    const found = this.watched.get(id);
    if (found === undefined || found.timer) return;
    found.timer = window.setTimeout(async () => {
      try {
        found.shells = await get<ShellInfo[]>(`${place("sessions", id)}/shells`);
      } catch {
        found.shells = [];
      }
      found.timer = 0;
      this.requestUpdate();
    }, SETTLE);
  }

  private readonly walk = (event: KeyboardEvent): void => {
    const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[event.key];
    if (step === undefined) return;
    const rows = [...this.querySelectorAll<HTMLElement>("a.session")];
    const next = rows[rows.indexOf(document.activeElement as HTMLElement) + step];
    next?.focus();
    event.preventDefault();
  };

  protected override render() {
    if (!this.sessions.length) {
      return html`<p class="empty">There is no session yet. <code>holdfast new work</code> starts one.</p>`;
    }
    return html`<ul class="sessions" @keydown=${this.walk} aria-label="Sessions">
      ${this.sessions.map((each) => this.row(each))}
    </ul>`;
  }

  private row(session: SessionInfo) {
    const shells = this.watched.get(session.id)?.shells ?? [];
    const waiting = waitingShell(shells);
    const state = waiting ? "waiting" : stateOf(session);
    return html`<li>
      <a class="session" href="#/s/${encodeURIComponent(session.name)}">
        <span class="state ${state}">${state}</span>
        <span class="name">${line(session.name)}</span>
        <span class="doing">${this.doing(session, shells, waiting)}</span>
        <span class="age">${age(session.created_at)}</span>
      </a>
    </li>`;
  }

  private doing(session: SessionInfo, shells: readonly ShellInfo[], waiting: ShellInfo | undefined) {
    if (waiting?.observed) {
      const since = Math.max(0, Date.now() / 1000 - waiting.observed.since);
      return `${line(waiting.observed.command, 40) || "a program"} waits for ${asks(waiting.observed.detail)} since ${seconds(since)}`;
    }
    const busy = shells.find((each) => each.observed?.state === "running");
    if (busy) return `runs ${line(busy.observed?.command, 60) || "a command"}`;
    if (session.lifetime?.trouble) return line(session.lifetime.trouble);
    return session.state === "running" ? "at its prompt" : nothing;
  }
}
customElements.define("session-list", SessionList);
