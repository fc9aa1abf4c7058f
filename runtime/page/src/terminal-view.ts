// The terminal of one shell: watched by anyone, typed into by who holds its lease.
//
// A view wakes nobody. To type, the page joins the terminal again as a person, at the very byte where it was.

import type { FitAddon } from "@xterm/addon-fit";
import type { SearchAddon } from "@xterm/addon-search";
import type { Terminal } from "@xterm/xterm";
import { html, LitElement, nothing } from "lit";

import { channels } from "./channels";
import { guardedTerminal, isAnswer, pasteable } from "./guarded-terminal";
import { ask } from "./question";
import { bytes, line } from "./texts";

const TAIL = 128 << 10;
const OVERHEAD = 200;
const AGAIN = 2_000;
/** Keys that a phone's keyboard lacks, and what they type. */
const KEYS: readonly (readonly [string, string])[] = [
  ["Esc", "\x1b"], ["Tab", "\t"], ["^C", "\x03"], ["^D", "\x04"], ["↑", "\x1b[A"], ["↓", "\x1b[B"], ["←", "\x1b[D"], ["→", "\x1b[C"],
];

export class TerminalView extends LitElement {
  static override properties = {
    session: {}, shell: {}, present: {}, searching: { state: true }, found: { state: true }, writes: { state: true }, holder: { state: true }, named: { state: true },
    trouble: { state: true }, typing: { state: true },
  };
  declare session: string;
  declare shell: string;
  /** Who is at the shell, in words. */
  declare present: string;
  declare searching: boolean;
  declare found: boolean | null;
  declare writes: boolean;
  declare holder: string;
  declare named: string;
  declare trouble: string;
  declare typing: boolean;
  private terminal!: Terminal;
  private fit!: FitAddon;
  private search!: SearchAddon;
  private channel = 0;
  private next: number | null = null;
  private take = false;
  /** The size that the page has reported, rows and columns. */
  private reported = "";
  private timer = 0;
  private observer: ResizeObserver | null = null;

  constructor() {
    super();
    this.session = "";
    this.shell = "main";
    this.present = "";
    this.searching = false;
    this.found = null;
    this.writes = false;
    this.holder = "";
    this.named = "";
    this.trouble = "";
    this.typing = false;
  }

  protected override createRenderRoot(): HTMLElement {
    return this;
  }

  protected override firstUpdated(): void {
    const { terminal, fit, search } = guardedTerminal((title) => (this.named = title));
    this.terminal = terminal;
    this.fit = fit;
    this.search = search;
    // Before the terminal takes the key: it is typed into nothing.
    terminal.attachCustomKeyEventHandler((event) => !this.opensSearch(event));
    const place = this.querySelector<HTMLElement>(".screen")!;
    terminal.open(place);
    terminal.onData((data) => {
      if (this.writes && !isAnswer(data)) channels.type(this.channel, data);
    });
    place.addEventListener("paste", (event) => void this.paste(event), { capture: true });
    this.observer = new ResizeObserver(() => this.report());
    this.observer.observe(place);
    this.fit.fit();
    this.join();
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.observer?.disconnect();
    clearTimeout(this.timer);
    channels.close(this.channel);
    this.terminal?.dispose();
  }

  private join(): void {
    clearTimeout(this.timer);
    channels.close(this.channel);
    this.writes = false;
    this.reported = "";
    this.channel = channels.open({
      opening: () => ({
        call: "terminal",
        session: this.session,
        args: {
          shell: this.shell, rows: this.terminal.rows, cols: this.terminal.cols, view: !this.typing,
          take: this.typing && this.take, ...(this.next === null ? { tail: TAIL } : { start: this.next }),
        },
      }),
      event: (event) => this.heard(event),
      ended: (_, error) => {
        this.writes = false;
        this.trouble = error ? line(error.message, 300) : "the shell was closed";
        this.dispatchEvent(new CustomEvent("ended"));
        // Watching again, if the session is still there by then, wakes nobody.
        this.typing = false;
        if (error) this.timer = window.setTimeout(() => this.join(), AGAIN);
      },
    });
  }

  private heard(event: Record<string, unknown>): void {
    const { channel } = this;
    this.trouble = "";
    if (event["event"] === "output") {
      const data = outputOf(event);
      this.next = Number(event["next"]);
      this.terminal.write(data, () => channels.grant(channel, data.length + OVERHEAD));
    } else if (event["event"] === "gap") {
      this.terminal.write(`\r\n\x1b[7m ${bytes(Number(event["bytes"]))} of output are not kept \x1b[0m\r\n`);
    } else if (event["event"] === "standing") {
      this.writes = event["writes"] === true && this.typing;
      this.holder = line(event["holder"], 80);
      this.take = false;
      this.terminal.options.disableStdin = !this.writes;
      this.terminal.resize(Number(event["cols"]), Number(event["rows"]));
      if (this.writes) {
        this.report();
        this.terminal.focus();
      }
    } else if (event["event"] === "refused") {
      this.trouble = `${this.holder || "another actor"} holds this shell: nothing was typed`;
    }
  }

  /** Tell the session how much room there is, if this page types; the shell's size is the answer to that. */
  private report(): void {
    const wanted = this.fit.proposeDimensions();
    if (!this.writes || !wanted?.cols || !wanted.rows) return;
    const size = `${wanted.rows} ${wanted.cols}`;
    if (size !== this.reported) channels.resize(this.channel, wanted.rows, wanted.cols);
    this.reported = size;
  }

  private type(take: boolean): void {
    this.typing = true;
    this.take = take;
    this.join();
  }

  private watch(): void {
    this.typing = false;
    this.join();
  }

  private async paste(event: ClipboardEvent): Promise<void> {
    const text = pasteable(event.clipboardData?.getData("text/plain") ?? "");
    event.preventDefault();
    event.stopPropagation();
    if (!this.writes || !text) return;
    const lines = text.split("\n").length;
    if (lines > 1 && !this.terminal.modes.bracketedPasteMode) {
      if ((await ask(`Each of ${lines} lines is run as it is pasted: ${line(text, 300)}`, "Paste")) === null) return;
    }
    this.terminal.paste(text);
  }

  private opensSearch(event: KeyboardEvent): boolean {
    const asked = event.key.toLowerCase() === "f" && event.shiftKey && (event.ctrlKey || event.metaKey);
    if (asked && event.type === "keydown") {
      event.preventDefault();
      void this.openSearch();
    }
    return asked;
  }

  private async openSearch(): Promise<void> {
    this.searching = true;
    await this.updateComplete;
    this.querySelector<HTMLInputElement>(".search input")?.select();
  }

  private closeSearch(): void {
    this.searching = false;
    this.found = null;
    this.terminal.clearSelection();
    this.terminal.focus();
  }

  /** Go to the next match, or the one before; while typing, stay at this one as long as it matches. */
  private seek(step: "next" | "before" | "same"): void {
    const text = this.querySelector<HTMLInputElement>(".search input")?.value ?? "";
    if (!text) {
      this.found = null;
      this.terminal.clearSelection();
    } else {
      this.found = step === "next" ? this.search.findNext(text) : this.search.findPrevious(text, { incremental: step === "same" });
    }
  }

  private readonly searched = (event: KeyboardEvent): void => {
    if (event.key === "Enter") this.seek(event.shiftKey ? "next" : "before");
    else if (event.key === "Escape") this.closeSearch();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };

  private searchBar() {
    return html`<div class="bar search" role="search">
      <input aria-label="Search the terminal, upwards" placeholder="Search" spellcheck="false" autocomplete="off"
        @input=${() => this.seek("same")} @keydown=${this.searched}>
      <button @click=${() => this.seek("before")} aria-label="Match before">↑</button>
      <button @click=${() => this.seek("next")} aria-label="Next match">↓</button>
      <button @click=${() => this.closeSearch()}>Close</button>
      <span role="status">${this.found === false ? "not found" : ""}</span>
    </div>`;
  }

  protected override render() {
    return html`
      <div class="bar" @keydown=${(event: KeyboardEvent) => this.opensSearch(event)}>
        ${this.lease()}
        ${this.present ? html`<span class="present">here: ${this.present}</span>` : nothing}
        <button class="find" title="Ctrl+Shift+F" aria-expanded=${this.searching} @click=${() => void this.openSearch()}>Search</button>
        ${this.named ? html`<span class="title" title="The title that a program has set">${this.named}</span>` : nothing}
        ${this.trouble ? html`<span class="trouble" role="status">${this.trouble}</span>` : nothing}
      </div>
      ${this.searching ? this.searchBar() : nothing}
      <div class="screen" aria-label="Terminal"></div>
      <div class="keys" ?hidden=${!this.writes}>
        ${KEYS.map(([label, text]) => html`<button @click=${() => this.press(text)}>${label}</button>`)}
      </div>`;
  }

  private press(text: string): void {
    channels.type(this.channel, text);
    this.terminal.focus();
  }

  private lease() {
    if (this.writes) {
      return html`<span class="lease mine">you type</span><button @click=${() => this.watch()}>Give back</button>`;
    }
    if (this.typing && this.holder) {
      return html`<span class="lease">${this.holder} types</span>
        <button class="primary" @click=${() => this.type(true)}>Take</button>`;
    }
    if (this.holder) {
      return html`<span class="lease">${this.holder} types, you watch</span>
        <button @click=${() => this.type(true)}>Take</button>`;
    }
    return html`<span class="lease">you watch</span><button class="primary" @click=${() => this.type(false)}>Type</button>`;
  }
}
customElements.define("terminal-view", TerminalView);

function outputOf(event: Record<string, unknown>): Uint8Array {
  const encoded = event["output_base64"];
  if (typeof encoded !== "string") return new TextEncoder().encode(String(event["output"]));
  return Uint8Array.from(atob(encoded), (each) => each.charCodeAt(0));
}
