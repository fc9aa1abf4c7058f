// Plays what a terminal showed, from any moment, in the same guarded terminal as the live one. What it begins
// with is the screen at that moment, which the server has made; secrets that its rules find are left out.

import type { Terminal } from "@xterm/xterm";
import { html, LitElement, nothing } from "lit";

import { download, explained, get, place, type ShellInfo } from "./api";
import { type Cast, countUntil, readCast, sizeOf } from "./cast-timeline";
import { guardedTerminal } from "./guarded-terminal";
import { line, span } from "./texts";

interface Kept {
  start: number;
  end: number;
  kept_start: number;
  kept_end: number;
}

/** Bytes of output that are loaded at once. */
const PART = 1 << 20;
const SPEEDS = [1, 2, 4, 16];
const STEP = 5;
const TICK = 50;

export class RecordingPlayer extends LitElement {
  static override properties = {
    session: {}, shell: {}, from: {}, shells: { attribute: false }, cast: { state: true }, at: { state: true },
    playing: { state: true }, speed: { state: true }, said: { state: true }, stretch: { state: true },
  };
  declare session: string;
  declare shell: string;
  /** A place as the server takes it: an offset, a time, a snapshot; by default the last part. */
  declare from: string;
  declare shells: readonly ShellInfo[];
  declare cast: Cast | null;
  declare at: number;
  declare playing: boolean;
  declare speed: number;
  declare said: string;
  declare stretch: Kept | null;
  private terminal!: Terminal;
  private shown = 0;
  private ticking = 0;
  private loading = 0;

  constructor() {
    super();
    this.session = "";
    this.shell = "main";
    this.from = "";
    this.shells = [];
    this.cast = null;
    this.at = 0;
    this.playing = false;
    this.speed = 1;
    this.said = "";
    this.stretch = null;
  }

  protected override createRenderRoot(): HTMLElement {
    return this;
  }

  protected override firstUpdated(): void {
    this.terminal = guardedTerminal(() => {}).terminal;
    this.terminal.open(this.querySelector<HTMLElement>(".screen")!);
    void this.load(this.from);
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    clearInterval(this.ticking);
    this.loading++;
    this.terminal?.dispose();
  }

  /** Load a part of the recording that begins at a place, and show how it begins; without one, the last part. */
  private async load(from: string): Promise<void> {
    const turn = ++this.loading;
    this.pause();
    this.said = "loading …";
    try {
      const path = `${place("sessions", this.session)}/shells/${encodeURIComponent(this.shell)}/recording`;
      let kept = await get<Kept>(path, from ? { start: from } : {});
      const start = from ? kept.start : Math.max(kept.kept_start, kept.kept_end - PART);
      const end = Math.min(start + PART, kept.kept_end);
      kept = { ...kept, start, end };
      const cast = readCast(await (await download(`${path}/cast?start=${start}&end=${end}`)).text());
      if (turn !== this.loading) return;
      this.stretch = kept;
      this.cast = cast;
      this.said = cast.events.length ? "" : "nothing was shown in this part";
      this.seek(0);
    } catch (error) {
      if (turn === this.loading) this.said = explained(error);
    }
  }

  /** Show the screen of a moment; the events up to it are shown again if it is an earlier one. */
  private seek(at: number): void {
    const { cast } = this;
    if (!cast) return;
    this.at = Math.min(Math.max(0, at), cast.seconds);
    const count = countUntil(cast.events, this.at);
    if (count < this.shown || this.shown === 0) {
      this.begin(cast);
    }
    for (; this.shown < count; this.shown++) {
      const { code, data } = cast.events[this.shown]!;
      if (code === "o") this.terminal.write(data);
      else if (code === "m") this.terminal.write(`\r\n\x1b[7m ${line(data, 80)} \x1b[0m\r\n`);
      else if (code === "r") this.resized(data);
    }
  }

  // Both in order with the output, which is parsed later.

  private begin({ rows, cols }: Cast): void {
    this.shown = 0;
    this.terminal.write("", () => {
      this.terminal.reset();
      this.terminal.resize(cols, rows);
    });
  }

  private resized(data: string): void {
    const size = sizeOf(data);
    if (size) this.terminal.write("", () => this.terminal.resize(size.cols, size.rows));
  }

  private play(): void {
    if (!this.cast) return;
    if (this.at >= this.cast.seconds) {
      this.shown = 0;
      this.seek(0);
    }
    this.playing = true;
    let last = performance.now();
    clearInterval(this.ticking);
    this.ticking = window.setInterval(() => {
      const now = performance.now();
      this.seek(this.at + ((now - last) / 1000) * this.speed);
      last = now;
      if (this.at >= (this.cast?.seconds ?? 0)) this.pause();
    }, TICK);
  }

  private pause(): void {
    clearInterval(this.ticking);
    this.playing = false;
  }

  private readonly pressed = (event: KeyboardEvent): void => {
    if (event.target instanceof HTMLSelectElement || event.ctrlKey || event.altKey || event.metaKey) return;
    const step = { ArrowLeft: -STEP, ArrowRight: STEP }[event.key];
    if (event.key === " " && !(event.target instanceof HTMLButtonElement)) this.playing ? this.pause() : this.play();
    else if (step !== undefined) this.seek(this.at + step);
    else return;
    event.preventDefault();
  };

  protected override render() {
    const { cast, stretch } = this;
    const seconds = cast?.seconds ?? 0;
    return html`<section class="player" @keydown=${this.pressed} aria-label="Recording">
      <div class="bar">
        <button class="primary" ?disabled=${!seconds} @click=${() => (this.playing ? this.pause() : this.play())}>${this.playing ? "Pause" : "Play"}</button>
        <input type="range" min="0" max=${seconds} step="0.1" .value=${String(this.at)} ?disabled=${!seconds}
          aria-label="Moment" aria-valuetext=${`${span(this.at)} of ${span(seconds)}`}
          @input=${(event: Event) => this.seek(Number((event.target as HTMLInputElement).value))}>
        <span class="moment">${span(this.at)} / ${span(seconds)}</span>
        <time>${this.clock()}</time>
        <label>Speed <select @change=${(event: Event) => (this.speed = Number((event.target as HTMLSelectElement).value))}>
          ${SPEEDS.map((each) => html`<option value=${each} ?selected=${each === this.speed}>${each}×</option>`)}
        </select></label>
        ${this.shells.length > 1
          ? html`<label>Shell <select @change=${(event: Event) => this.choose((event.target as HTMLSelectElement).value)}>
              ${this.shells.map((each) => html`<option value=${each.name} ?selected=${each.name === this.shell}>${line(each.name, 40)}</option>`)}
            </select></label>`
          : nothing}
        ${stretch && stretch.start > stretch.kept_start
          ? html`<button @click=${() => void this.load(String(Math.max(stretch.kept_start, stretch.start - PART)))}>Earlier</button>`
          : nothing}
        ${stretch && stretch.end < stretch.kept_end ? html`<button @click=${() => void this.load(String(stretch.end))}>Later</button>` : nothing}
      </div>
      ${this.said ? html`<p class="said" role="status">${this.said}</p>` : nothing}
      <div class="screen" tabindex="0" aria-label="The terminal at that moment"></div>
    </section>`;
  }

  private choose(shell: string): void {
    this.shell = shell;
    void this.load("");
  }

  private clock(): string {
    const { cast } = this;
    const last = cast && cast.events[Math.max(0, countUntil(cast.events, this.at) - 1)];
    return cast && last ? new Date((cast.begun + last.at) * 1000).toLocaleString() : "";
  }
}
customElements.define("recording-player", RecordingPlayer);
