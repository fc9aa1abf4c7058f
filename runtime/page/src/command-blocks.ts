// Commands and cells as blocks: what was run, by whom, when, how it ended, and what it wrote.

import { html, LitElement, nothing } from "lit";

import { explained, get, place, send, type Entry } from "./api";
import { FollowedCell } from "./followed-cell";
import { richOutput } from "./rich-output";
import { clock, line, seconds } from "./texts";

interface Block {
  id: string;
  kind: "command" | "cell";
  started: Entry | undefined;
  ended: Entry | undefined;
  output: string | null;
}

const MOST = 300;
const MOST_FOLLOWED = 8;
const LONGEST_OUTPUT = 200_000;

export class CommandBlocks extends LitElement {
  static override properties = { session: {}, running: { type: Boolean }, said: { state: true } };
  declare session: string;
  declare running: boolean;
  declare said: string;
  private readonly blocks = new Map<string, Block>();
  private readonly followed = new Map<string, FollowedCell>();

  constructor() {
    super();
    this.session = "";
    this.running = false;
    this.said = "";
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.leave();
  }

  protected override createRenderRoot(): HTMLElement {
    return this;
  }

  /** Forget all: the session continues on another line of events. */
  clear(): void {
    this.leave();
    this.blocks.clear();
    this.requestUpdate();
  }

  private leave(): void {
    for (const each of this.followed.values()) each.leave();
    this.followed.clear();
  }

  /** Take entries of the journal, in any order. */
  add(entries: readonly Entry[]): void {
    for (const entry of entries) {
      const [kind, moment] = entry.kind.split("_");
      if ((kind !== "command" && kind !== "cell") || (moment !== "started" && moment !== "ended")) continue;
      const id = String(entry["id"]);
      const block: Block = this.blocks.get(id) ?? { id, kind, started: undefined, ended: undefined, output: null };
      block[moment] = entry;
      this.blocks.set(id, block);
    }
    for (const id of this.blocks.keys()) {
      if (this.blocks.size <= MOST) break;
      this.blocks.delete(id);
    }
    this.follow();
    this.requestUpdate();
  }

  /** Follow the cells that run, and leave those that have ended: the journal has their outputs. */
  private follow(): void {
    for (const [id, each] of this.followed) {
      if (this.running && this.blocks.get(id)?.ended === undefined) continue;
      each.leave();
      this.followed.delete(id);
    }
    if (!this.running) return;
    for (const { id, kind, started, ended } of this.blocks.values()) {
      if (kind !== "cell" || !started || ended || this.followed.has(id) || this.followed.size >= MOST_FOLLOWED) continue;
      const kernel = String(started["kernel"] ?? "main");
      this.followed.set(id, new FollowedCell(this.session, id, kernel, () => this.requestUpdate()));
    }
  }

  private async answer(event: SubmitEvent, cell: FollowedCell): Promise<void> {
    event.preventDefault();
    const field = (event.target as HTMLFormElement).elements.namedItem("answer") as HTMLInputElement;
    const { question } = cell;
    if (!question) return;
    const text = field.value;
    field.value = "";
    try {
      const path = `${place("sessions", this.session)}/cells/${encodeURIComponent(cell.id)}/answer`;
      await send("POST", path, { text, seq: question.seq, kernel: cell.kernel, patience: 0 });
      if (cell.question === question) cell.question = null;
      this.said = "";
    } catch (error) {
      this.said = explained(error);
    }
  }

  private readonly run = async (event: Event): Promise<void> => {
    event.preventDefault();
    const field = this.querySelector<HTMLTextAreaElement>("textarea[name=code]")!;
    const code = field.value;
    if (!code.trim()) return;
    try {
      await send("POST", `${place("sessions", this.session)}/cells`, { code, patience: 0 });
      if (field.value === code) field.value = "";
      this.said = "";
    } catch (error) {
      this.said = explained(error);
    }
  };

  private readonly pressed = (event: KeyboardEvent): void => {
    if (event.key === "Enter" && (event.shiftKey || event.ctrlKey)) void this.run(event);
  };

  protected override render() {
    const blocks = [...this.blocks.values()].reverse();
    return html`
      ${this.running
        ? html`<details class="cell-box"><summary>Run a cell</summary>
            <form @submit=${this.run} @keydown=${this.pressed}>
              <textarea name="code" rows="3" spellcheck="false" autocapitalize="off" aria-label="Code, run by Shift and Enter"></textarea>
              <button class="primary">Run</button>
            </form></details>`
        : nothing}
      ${this.said ? html`<p class="trouble" role="alert">${this.said}</p>` : nothing}
      ${blocks.length ? this.list(blocks) : html`<p class="empty">Nothing was run yet.</p>`}`;
  }

  private list(blocks: readonly Block[]) {
    return html`<ol class="blocks" aria-label="Commands and cells, the newest first">
      ${blocks.map((each) => html`<li class="block ${outcome(each)[0]}">${this.block(each)}</li>`)}
    </ol>`;
  }

  private block(block: Block) {
    const { started, ended } = block;
    const text = String((block.kind === "cell" ? started?.["code"] : started?.["command"]) ?? "…");
    const [, said] = outcome(block);
    return html`
      <div class="head">
        <code>${line(text, 300)}</code>
        <span class="said">${said}</span>
      </div>
      <div class="foot">
        <span>${line(started?.actor ?? ended?.actor, 80)}</span>
        ${started ? html`<time>${clock(started.at)}</time>` : nothing}
        ${started?.["reason"] ? html`<span>${line(started["reason"])}</span>` : nothing}
        ${block.kind === "command" && ended && this.running
          ? html`<button @click=${() => void this.toggle(block)}>${block.output === null ? "Output" : "Hide"}</button>`
          : nothing}
        ${block.kind === "command" && typeof started?.["offset"] === "number"
          ? html`<button @click=${() => this.play(block)}>Play</button>`
          : nothing}
        <button @click=${() => void navigator.clipboard.writeText(text)}>Copy</button>
      </div>
      ${block.output === null ? nothing : html`<pre>${block.output || "(no output)"}</pre>`}
      ${block.kind === "cell" && Array.isArray(ended?.["outputs"]) ? ended["outputs"].map((each) => richOutput(each)) : nothing}
      ${ended ? nothing : this.live(this.followed.get(block.id))}`;
  }

  /** What a running cell has shown, and its question. */
  private live(cell: FollowedCell | undefined) {
    if (!cell) return nothing;
    const { question } = cell;
    return html`<div class="live" aria-live="off">${cell.outputs.map((each) => richOutput(each))}</div>
      ${question
        ? html`<form class="question" @submit=${(event: SubmitEvent) => void this.answer(event, cell)}>
            <label>${line(question.prompt, 200) || "The cell asks"}
              <input name="answer" type=${question.password ? "password" : "text"} autocomplete="off" spellcheck="false"></label>
            <button class="primary">Answer</button>
          </form>`
        : nothing}`;
  }

  /** Ask for the recording of a command's shell, from where it began. */
  private play({ started }: Block): void {
    const detail = { shell: String(started?.["shell"] ?? "main"), from: String(started?.["offset"]) };
    this.dispatchEvent(new CustomEvent("replay", { detail, bubbles: true }));
  }

  private async toggle(block: Block): Promise<void> {
    if (block.output !== null) block.output = null;
    else {
      try {
        const path = `${place("sessions", this.session)}/commands/${encodeURIComponent(block.id)}`;
        const told = await get<{ output: string }>(path, { shell: String(block.started?.["shell"] ?? "main") });
        block.output = withoutControls(told.output).slice(-LONGEST_OUTPUT);
      } catch (error) {
        block.output = explained(error);
      }
    }
    this.requestUpdate();
  }
}
customElements.define("command-blocks", CommandBlocks);

function outcome(block: Block): [string, string] {
  const { ended } = block;
  if (!ended) return ["runs", "runs"];
  const lasted = typeof ended["duration"] === "number" ? ` after ${seconds(ended["duration"])}` : "";
  if (block.kind === "cell") {
    return [ended["status"] === "ok" ? "good" : "bad", `${line(ended["status"], 20)}${lasted}`];
  }
  if (ended["signal"]) return ["bad", `signal ${line(ended["signal"], 10)}${lasted}`];
  return [ended["exit_code"] === 0 ? "good" : "bad", `exit ${line(ended["exit_code"], 10) || "unknown"}${lasted}`];
}

/** Output as text: colours and other controls are left out, lines remain. */
export function withoutControls(text: string): string {
  return text
    .replace(/\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)/g, "")
    .replace(/\x1b\[[0-?]*[ -/]*[@-~]/g, "")
    .replace(/\x1b[PX^_][^\x1b]*\x1b\\/g, "")
    .replace(/\r\n/g, "\n")
    .replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, "");
}
