// One session: its terminal, what was run, its snapshots, its files, what happened; and what it waits for.

import { html, LitElement, nothing } from "lit";

import { keyed } from "lit/directives/keyed.js";

import { explained, get, place, send, type Entry, type Lease, type SessionInfo, type ShellInfo } from "./api";
import type { CommandBlocks } from "./command-blocks";
import "./command-blocks";
import "./file-browser";
import "./pulse-view";
import "./recording-player";
import { SessionEvents } from "./session-events";
import { stateOf, waitingShell } from "./session-list";
import "./share-links";
import "./shell-tabs";
import "./snapshot-timeline";
import type { SnapshotTimeline } from "./snapshot-timeline";
import "./task-view";
import "./terminal-view";
import { asks, clock, line, seconds } from "./texts";
import { present } from "./viewers";

const TABS = ["terminal", "recording", "pulse", "task", "files", "events"] as const;
type Tab = (typeof TABS)[number];
const MAIN = "main";
const SETTLE = 100;
const MOST_EVENTS = 200;
const AFTER_A_CAPTURE = [500, 2_000, 8_000];
/** After which the timeline may have another point. */
const OF_SNAPSHOTS = ["snapshot", "woken", "rewound", "forked"];

export class SessionView extends LitElement {
  static override properties = {
    session: { attribute: false }, view: {}, shells: { state: true }, shell: { state: true }, lease: { state: true }, replayed: { state: true }, said: { state: true },
    happened: { state: true }, now: { state: true },
  };
  declare session: SessionInfo;
  declare shells: readonly ShellInfo[];
  /** The part of it that the address names. */
  declare view: string;
  declare shell: string;
  /** Who is at the shell that is shown. */
  declare lease: Lease | null;
  /** What the recording begins with. */
  declare replayed: { shell: string; from: string };
  declare said: string;
  declare happened: readonly Entry[];
  declare now: number;
  private events: SessionEvents | null = null;
  private followed = "";
  private timer = 0;
  private ticking = 0;

  constructor() {
    super();
    this.shells = [];
    this.view = "";
    this.shell = MAIN;
    this.lease = null;
    this.replayed = { shell: MAIN, from: "" };
    this.said = "";
    this.happened = [];
    this.now = Date.now();
  }

  protected override createRenderRoot(): HTMLElement {
    return this;
  }

  override connectedCallback(): void {
    super.connectedCallback();
    this.ticking = window.setInterval(() => {
      if (!document.hidden && waitingShell(this.shells)) this.now = Date.now();
    }, 1000);
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    clearInterval(this.ticking);
    clearTimeout(this.timer);
    this.events?.leave();
  }

  protected override updated(): void {
    // A session that was rewound, or woke up, has another line of events.
    const which = `${this.session.id} ${this.session.generation} ${this.session.state}`;
    if (which === this.followed) return;
    this.followed = which;
    this.events?.leave();
    this.happened = [];
    this.shells = [];
    this.querySelector<CommandBlocks>("command-blocks")?.clear();
    this.events = new SessionEvents(this.session.id, (entries) => this.came(entries), () => this.ask());
    this.events.begin(this.session.state === "running").catch((error) => (this.said = explained(error)));
  }

  private came(entries: readonly Entry[]): void {
    this.happened = [...this.happened, ...entries].slice(-MOST_EVENTS);
    this.querySelector<CommandBlocks>("command-blocks")?.add(entries);
    if (entries.some((each) => OF_SNAPSHOTS.includes(each.kind))) {
      // The session continues before its snapshot is stored.
      for (const pause of AFTER_A_CAPTURE) setTimeout(() => this.timeline?.refresh(), pause);
    }
    this.renew();
  }

  private readonly isShown = (each: ShellInfo): boolean => each.name === this.shell;

  /** Ask for the shells, once for all that happens in a moment. */
  private renew(): void {
    if (this.session.state !== "running" || this.timer) return;
    this.timer = window.setTimeout(async () => {
      this.timer = 0;
      try {
        const path = `${place("sessions", this.session.id)}/shells`;
        const { shell, shells: before } = this;
        const lease = get<Lease>(`${path}/${encodeURIComponent(shell)}/lease`).catch(() => null);
        this.shells = await get<ShellInfo[]>(path);
        if (shell === this.shell) this.lease = await lease;
        this.now = Date.now();
        // One that is not there yet was opened just now.
        if (before.some(this.isShown) && !this.shells.some(this.isShown)) this.shell = MAIN;
      } catch {
        this.ask();
      }
    }, SETTLE);
  }

  private get timeline(): SnapshotTimeline | null {
    return this.querySelector("snapshot-timeline");
  }

  /** Let the page look at the sessions again. */
  private ask(): void {
    this.dispatchEvent(new CustomEvent("stale", { bubbles: true }));
  }

  private readonly answer = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    const form = event.target as HTMLFormElement;
    const field = form.elements.namedItem("answer") as HTMLInputElement;
    const shell = form.dataset["shell"] ?? "main";
    const text = `${field.value}\n`;
    field.value = "";
    try {
      await send("POST", `${place("sessions", this.session.id)}/shells/${encodeURIComponent(shell)}/input`, { text });
      this.said = "";
    } catch (error) {
      this.said = explained(error);
    }
  };

  private async wake(): Promise<void> {
    this.said = "the session wakes up …";
    try {
      await send("POST", `${place("sessions", this.session.id)}/resume`);
      this.said = "";
    } catch (error) {
      this.said = explained(error);
    }
    this.ask();
  }

  private get tab(): Tab {
    return TABS.find((each) => each === this.view) ?? "terminal";
  }

  private go(tab: Tab): void {
    location.hash = `#/s/${encodeURIComponent(this.session.name)}${tab === "terminal" ? "" : `/${tab}`}`;
  }

  private readonly replay = (event: CustomEvent<{ shell: string; from: string }>): void => {
    this.replayed = event.detail;
    this.go("recording");
  };

  private readonly walk = (event: KeyboardEvent): void => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step === undefined) return;
    const next = TABS[TABS.indexOf(this.tab) + step];
    if (next) this.go(next);
    void this.updateComplete.then(() => this.querySelector<HTMLElement>("nav [aria-selected=true]")?.focus());
    event.preventDefault();
  };

  private choose(shell: string): void {
    this.shell = shell;
    this.lease = null;
    this.renew();
  }

  private terminal() {
    return html`<shell-tabs .session=${this.session.id} .shells=${this.shells} .shown=${this.shell}
        @shell=${(event: CustomEvent<string>) => this.choose(event.detail)} @changed=${() => this.renew()}></shell-tabs>
      ${keyed(this.shell, html`<terminal-view .session=${this.session.id} .shell=${this.shell} .present=${present(this.lease)}
        @ended=${() => (this.ask(), this.renew())}></terminal-view>`)}`;
  }

  private recording() {
    const { shell, from } = this.replayed;
    return keyed(`${shell} ${from}`, html`<recording-player .session=${this.session.id} .shell=${shell} .from=${from} .shells=${this.shells}></recording-player>`);
  }

  protected override render() {
    const state = waitingShell(this.shells) ? "waiting" : stateOf(this.session);
    return html`
      <header class="bar">
        <a class="button" href="#/" aria-label="All sessions">←</a>
        <h1>${line(this.session.name)}</h1>
        <span class="state ${state}">${state}</span>
        <nav role="tablist" aria-label="Views" @keydown=${this.walk}>
          ${TABS.map((each) => html`<button role="tab" aria-selected=${each === this.tab} tabindex=${each === this.tab ? 0 : -1} @click=${() => this.go(each)}>${each}</button>`)}
        </nav>
        <share-links .session=${this.session.id}></share-links>
      </header>
      ${this.question()}
      ${this.said ? html`<p class="said" role="status">${this.said}</p>` : nothing}
      <main class=${this.tab} @replay=${this.replay}>
        <section class="left" ?hidden=${this.tab !== "terminal"}>
          ${this.session.state === "running"
            ? this.terminal()
            : this.stopped()}
          <snapshot-timeline .session=${this.session} @rewound=${() => this.ask()}></snapshot-timeline>
        </section>
        <aside ?hidden=${this.tab !== "terminal"}>
          <command-blocks .session=${this.session.id} .running=${this.session.state === "running"}></command-blocks>
        </aside>
        ${this.tab === "recording" ? this.recording() : nothing}
        ${this.tab === "pulse" ? this.pulse() : nothing}
        ${this.tab === "task" ? html`<task-view .session=${this.session.id}></task-view>` : nothing}
        ${this.tab === "files" ? this.fileBrowser() : nothing}
        ${this.tab === "events" ? this.eventList() : nothing}
      </main>`;
  }

  private stopped() {
    const why = this.session.lifetime?.trouble ?? "";
    return html`<div class="stopped">
      <p>This session is ${stateOf(this.session)}. ${line(why, 300)} Its snapshots and its journal are below and beside.</p>
      ${this.session.state === "suspended" || this.session.state === "dead"
        ? html`<button class="primary" @click=${() => void this.wake()}>${this.session.state === "dead" ? "Start it again" : "Wake it"}</button>`
        : nothing}
    </div>`;
  }

  private question() {
    const shell = waitingShell(this.shells);
    const observed = shell?.observed;
    if (!shell || !observed) return nothing;
    const since = Math.max(0, this.now / 1000 - observed.since);
    const secret = observed.detail === "password";
    return html`<form class="question" data-shell=${shell.name} @submit=${this.answer}>
      <strong>${line(observed.command, 60) || "A program"} waits for ${asks(observed.detail)} since ${seconds(since)}</strong>
      <label>${line(observed.prompt, 120)}
        <input name="answer" type=${secret ? "password" : "text"} autocomplete="off" spellcheck="false" aria-label="Answer">
      </label>
      <button class="primary">Answer</button>
    </form>`;
  }

  private pulse() {
    return this.session.state === "running"
      ? html`<pulse-view .session=${this.session.id}></pulse-view>`
      : html`<p class="empty">The pulse is shown while the session runs.</p>`;
  }

  private fileBrowser() {
    return this.session.state === "running"
      ? html`<file-browser .session=${this.session.id} .start=${this.shells[0]?.cwd || "/"}></file-browser>`
      : html`<p class="empty">Files are shown while the session runs.</p>`;
  }

  private eventList() {
    return html`<ol class="events" aria-label="Events, the newest first">
      ${[...this.happened].reverse().map((each) => html`<li>
        <time>${clock(each.at)}</time> <strong>${line(each.kind, 40)}</strong> <span>${line(each.actor, 80)}</span>
        <span class="fields">${fields(each)}</span>
      </li>`)}
    </ol>`;
  }
}
customElements.define("session-view", SessionView);

const SHOWN_ELSEWHERE = new Set(["seq", "at", "kind", "actor", "event", "channel", "id", "outputs"]);

function fields(entry: Entry): string {
  return Object.entries(entry)
    .filter(([name, value]) => !SHOWN_ELSEWHERE.has(name) && value !== null && typeof value !== "object")
    .map(([name, value]) => `${name} ${line(value, 120)}`)
    .join(", ");
}
