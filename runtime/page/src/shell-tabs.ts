// The shells of a session: which one is shown, what each does, and who is there. Opens and closes them.

import { html, LitElement, nothing } from "lit";

import { explained, get, type Lease, place, send, type ShellInfo } from "./api";
import { ask } from "./question";
import { line } from "./texts";
import { present } from "./viewers";

const MAIN = "main";
const NAME = /^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$/;

export class ShellTabs extends LitElement {
  static override properties = {
    session: {}, shells: { attribute: false }, shown: {}, said: { state: true },
  };
  declare session: string;
  declare shells: readonly ShellInfo[];
  declare shown: string;
  declare said: string;

  constructor() {
    super();
    this.session = "";
    this.shells = [];
    this.shown = MAIN;
    this.said = "";
  }

  protected override createRenderRoot(): HTMLElement {
    return this;
  }

  private choose(name: string): void {
    this.dispatchEvent(new CustomEvent("shell", { detail: name, bubbles: true }));
  }

  private async open(): Promise<void> {
    const name = await ask("Open a shell beside the others.", "Open", { label: "Name ", value: this.free() });
    if (name === null) return;
    if (!NAME.test(name)) {
      this.said = "a name has letters, digits, - and _";
      return;
    }
    await this.work(async () => {
      await send("POST", `${place("sessions", this.session)}/shells`, { name });
      this.choose(name);
    });
  }

  private async end(shell: ShellInfo): Promise<void> {
    const busy = shell.observed?.state === "running" || shell.observed?.state === "waiting";
    const runs = busy ? ` It runs ${line(shell.observed?.command, 60) || "a command"}.` : "";
    const at = `${place("sessions", this.session)}/shells/${encodeURIComponent(shell.name)}`;
    const here = present(await get<Lease>(`${at}/lease`).catch(() => null));
    const text = `End the shell ${line(shell.name, 60)}?${runs}${here ? ` Here are ${here}.` : ""}`;
    if ((await ask(text, "End")) === null) return;
    if (shell.name === this.shown) this.choose(MAIN);
    await this.work(async () => {
      await send("DELETE", `${at}?force=true`);
    });
  }

  private async work(work: () => Promise<void>): Promise<void> {
    this.said = "";
    try {
      await work();
    } catch (error) {
      this.said = explained(error);
    }
    this.dispatchEvent(new CustomEvent("changed", { bubbles: true }));
  }

  private free(): string {
    for (let number = 2; ; number++) {
      const name = `shell-${number}`;
      if (!this.shells.some((each) => each.name === name)) return name;
    }
  }

  private readonly walk = (event: KeyboardEvent): void => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step === undefined) return;
    const tabs = [...this.querySelectorAll<HTMLElement>("[role=tab]")];
    tabs[tabs.indexOf(document.activeElement as HTMLElement) + step]?.focus();
    event.preventDefault();
  };

  protected override render() {
    const chosen = this.shells.find((each) => each.name === this.shown);
    return html`<div class="shells">
      <span role="tablist" aria-label="Shells" @keydown=${this.walk}>
        ${this.shells.map((each) => html`<button role="tab" class=${each.observed?.state ?? ""}
          aria-selected=${each.name === this.shown} @click=${() => this.choose(each.name)}>${line(each.name, 40)}${mark(each)}</button>`)}
      </span>
      <button @click=${() => void this.open()}>New shell</button>
      ${chosen && chosen.name !== MAIN
        ? html`<button @click=${() => void this.end(chosen)}>End ${line(chosen.name, 40)}</button>`
        : nothing}
      ${this.said ? html`<span class="trouble" role="status">${this.said}</span>` : nothing}
    </div>`;
  }
}
customElements.define("shell-tabs", ShellTabs);

function mark(shell: ShellInfo): string {
  return { waiting: " · waits", running: " · runs" }[shell.observed?.state ?? ""] ?? "";
}
