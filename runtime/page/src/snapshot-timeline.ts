// The snapshots of a session as a line of points; each can be restored, forked, or rewound to.

import { html, LitElement, nothing } from "lit";

import { explained, get, place, send, type SessionInfo, type SnapshotInfo } from "./api";
import { changeList } from "./change-list";
import { ask } from "./question";
import { age, bytes, line } from "./texts";

export class SnapshotTimeline extends LitElement {
  static override properties = {
    session: { attribute: false }, snapshots: { state: true }, chosen: { state: true }, said: { state: true },
    busy: { state: true }, compared: { state: true },
  };
  declare session: SessionInfo;
  declare snapshots: readonly SnapshotInfo[];
  declare chosen: string;
  declare said: string;
  declare busy: boolean;
  /** A comparison, and the two points that it is of. */
  declare compared: { from: string; to: string; found: Record<string, unknown> } | null;
  private shown = "";

  constructor() {
    super();
    this.snapshots = [];
    this.chosen = "";
    this.said = "";
    this.busy = false;
    this.compared = null;
  }

  protected override createRenderRoot(): HTMLElement {
    return this;
  }

  protected override updated(): void {
    if (this.session.id !== this.shown) {
      this.shown = this.session.id;
      void this.refresh();
    }
  }

  async refresh(): Promise<void> {
    const all = await get<SnapshotInfo[]>("/v1/snapshots").catch(() => []);
    this.snapshots = ancestry(all, this.session);
  }

  protected override render() {
    const chosen = this.snapshots.find((each) => each.id === this.chosen);
    const runs = this.session.state === "running";
    return html`
      <div class="timeline" role="group" aria-label="Snapshots, the oldest first">
        ${this.snapshots.map((each) => html`<button
          class="point ${each.kind}" aria-pressed=${each.id === this.chosen} title=${line(each.name)}
          @click=${() => (this.chosen = each.id === this.chosen ? "" : each.id)}
        ><span class="dot"></span><span>${line(each.label ?? each.name, 24)}</span><small>${age(each.created_at)}</small></button>`)}
        <span class="now">now</span>
        <button class="primary" ?disabled=${this.busy || !runs} @click=${() => void this.capture()}>Snapshot</button>
        <button ?disabled=${this.busy || !runs} @click=${() => void this.fork(place("sessions", this.session.id), "now")}>Fork now</button>
      </div>
      ${chosen ? this.actions(chosen) : nothing}
      ${this.comparison()}
      ${this.said ? html`<p class="said" role="status">${this.said}</p>` : nothing}`;
  }

  private actions(point: SnapshotInfo) {
    const path = place("snapshots", point.id);
    const name = titled(point);
    const runs = this.session.state === "running";
    return html`<div class="actions">
      <span>${name}: ${point.kind}, ${bytes(point.bytes)}${point.reason ? `, ${line(point.reason)}` : ""}</span>
      <button ?disabled=${this.busy} @click=${() => void this.fork(path, name)}>Fork</button>
      <button ?disabled=${this.busy} @click=${() => void this.restore(path, name)}>Restore</button>
      ${point.session_id === this.session.id
        ? html`<button ?disabled=${this.busy} @click=${() => void this.rewind(point, name)}>Rewind</button>`
        : nothing}
      <button @click=${() => this.replay(point)}>Play from here</button>
      <label>Compare with <select @change=${(event: Event) => void this.compare(point, event.target as HTMLSelectElement)}>
        <option value="">…</option>
        ${runs ? html`<option value="now">now</option>` : nothing}
        ${this.snapshots.filter((each) => each !== point).map((each) => html`<option value=${each.id}>${titled(each)}</option>`)}
      </select></label>
    </div>`;
  }

  private comparison() {
    const { compared } = this;
    if (!compared) return nothing;
    return html`<section class="comparison">
      <div class="bar"><strong>From ${compared.from} to ${compared.to}</strong>
        <button @click=${() => (this.compared = null)}>Close</button></div>
      ${changeList(compared.found)}
    </section>`;
  }

  /** Compare a point with another, the older one first, or with the session as it is now. */
  private async compare(point: SnapshotInfo, chosen: HTMLSelectElement): Promise<void> {
    const with_ = chosen.value;
    chosen.value = "";
    if (!with_) return;
    await this.work("compares them", async () => {
      if (with_ === "now") {
        const found = await get<Record<string, unknown>>(`${place("sessions", this.session.id)}/drift`, { since: point.id });
        this.compared = { from: titled(point), to: "now", found };
        return "";
      }
      const two = this.snapshots.filter((each) => each.id === with_ || each.id === point.id);
      const [before, after] = [two[0]!, two[1]!];
      const found = await get<Record<string, unknown>>("/v1/snapshots/diff", { before: before.id, after: after.id });
      this.compared = { from: titled(before), to: titled(after), found };
      return "";
    });
  }

  private replay(point: SnapshotInfo): void {
    this.dispatchEvent(new CustomEvent("replay", { detail: { shell: "main", from: point.id }, bubbles: true }));
  }

  private async capture(): Promise<void> {
    const label = await ask("Capture this session, with all that runs in it.", "Snapshot", { label: "Label (optional) ", value: "" });
    if (label === null) return;
    await this.work("captures the session", async () => {
      const made = await send<SnapshotInfo>("POST", `${place("sessions", this.session.id)}/snapshots`, label ? { label } : {});
      return `${line(made?.name)} was taken`;
    });
  }

  private async fork(path: string, of: string): Promise<void> {
    if ((await ask(`Start a copy of ${of === "now" ? "this moment" : of}, which continues on its own.`, "Fork")) === null) return;
    await this.work("makes a copy", async () => {
      const made = await send<SessionInfo[]>("POST", `${path}/fork`, { n: 1 });
      return this.entered(made?.[0]);
    });
  }

  private async restore(path: string, name: string): Promise<void> {
    if ((await ask(`Start a new session from ${name}.`, "Restore")) === null) return;
    await this.work("restores", async () => this.entered((await send<SessionInfo>("POST", `${path}/restore`, {})) ?? undefined));
  }

  private async rewind(point: SnapshotInfo, name: string): Promise<void> {
    const text = `Take this session back to ${name}, in place. Its present state is kept as a snapshot.`;
    if ((await ask(text, "Rewind")) === null) return;
    await this.work("goes back", async () => {
      await send("POST", `${place("sessions", this.session.id)}/rewind`, { snapshot: point.id });
      this.dispatchEvent(new CustomEvent("rewound", { bubbles: true }));
      return `this session is at ${name} again`;
    });
  }

  private entered(made: SessionInfo | undefined): string {
    if (made) location.hash = `#/s/${encodeURIComponent(made.name)}`;
    return made ? `${line(made.name)} was made` : "";
  }

  private async work(doing: string, work: () => Promise<string>): Promise<void> {
    this.busy = true;
    this.said = `the server ${doing} …`;
    try {
      this.said = await work();
    } catch (error) {
      this.said = explained(error);
    }
    this.busy = false;
    await this.refresh();
  }
}
customElements.define("snapshot-timeline", SnapshotTimeline);

function titled(point: SnapshotInfo): string {
  return line(point.label ?? point.name, 60);
}

/** The snapshots of a session and those that it comes from, the oldest first. */
function ancestry(all: readonly SnapshotInfo[], session: SessionInfo): SnapshotInfo[] {
  const byId = new Map(all.map((each) => [each.id, each]));
  const found = new Set(all.filter((each) => each.session_id === session.id));
  let id = session.parent_snapshot_id;
  while (id !== null) {
    const each = byId.get(id);
    if (each === undefined || found.has(each)) break;
    found.add(each);
    id = each.parent_id;
  }
  return [...found].sort((one, other) => Date.parse(one.created_at) - Date.parse(other.created_at));
}
