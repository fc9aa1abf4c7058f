// Commands and cells as blocks: what was run, by whom, when, how it ended, and what it wrote.

import { html, LitElement, nothing } from "lit";

import { explained, get, place, type Entry } from "./api";
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
const LONGEST_OUTPUT = 200_000;

export class CommandBlocks extends LitElement {
  static override properties = { session: {}, running: { type: Boolean } };
  declare session: string;
  declare running: boolean;
  private readonly blocks = new Map<string, Block>();

  constructor() {
    super();
    this.session = "";
    this.running = false;
  }

  protected override createRenderRoot(): HTMLElement {
    return this;
  }

  /** Forget all: the session continues on another line of events. */
  clear(): void {
    this.blocks.clear();
    this.requestUpdate();
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
    this.requestUpdate();
  }

  protected override render() {
    const blocks = [...this.blocks.values()].reverse();
    if (!blocks.length) return html`<p class="empty">Nothing was run yet.</p>`;
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
        <button @click=${() => void navigator.clipboard.writeText(text)}>Copy</button>
      </div>
      ${block.output === null ? nothing : html`<pre>${block.output || "(no output)"}</pre>`}
      ${block.kind === "cell" && Array.isArray(ended?.["outputs"]) ? ended["outputs"].map(richOutput) : nothing}`;
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
