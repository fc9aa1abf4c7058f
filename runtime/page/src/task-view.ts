// The record of a session's task: goal, plan, decisions, questions with a box for the answer.

import { html, LitElement, nothing, type TemplateResult } from "lit";

import { explained, get, place, send } from "./api";
import { age, counted, line } from "./texts";

type Row = Record<string, unknown>;
const TEXT = 1000;
const EVERY = 3_000;
const MARKS: Readonly<Record<string, string>> = { done: "✓", active: "▸", blocked: "!", skipped: "–", open: "○" };

export class TaskView extends LitElement {
  static override properties = { session: {}, known: { state: true }, said: { state: true }, loaded: { state: true } };
  declare session: string;
  declare known: Row | null;
  declare said: string;
  declare loaded: boolean;
  private timer = 0;

  constructor() {
    super();
    this.session = "";
    this.known = null;
    this.said = "";
    this.loaded = false;
  }

  protected override createRenderRoot(): HTMLElement {
    return this;
  }

  override connectedCallback(): void {
    super.connectedCallback();
    // The record is the host's: no event of the session reports its changes.
    this.timer = window.setInterval(() => {
      if (!document.hidden) void this.refresh();
    }, EVERY);
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    clearInterval(this.timer);
  }

  protected override firstUpdated(): void {
    void this.refresh();
  }

  private async refresh(): Promise<void> {
    try {
      this.known = await get<Row | null>(`${place("sessions", this.session)}/task`);
      this.loaded = true;
    } catch (error) {
      this.said = explained(error);
    }
  }

  private async answer(event: SubmitEvent, number: number): Promise<void> {
    event.preventDefault();
    const field = (event.target as HTMLFormElement).elements.namedItem("answer") as HTMLInputElement;
    try {
      await send("POST", `${place("sessions", this.session)}/task/answer`, { number, text: field.value });
      field.value = "";
      this.said = "";
    } catch (error) {
      this.said = explained(error);
    }
    await this.refresh();
  }

  protected override render() {
    const { known } = this;
    if (!known) {
      return html`<p class="empty" role="status">${this.said || (this.loaded ? html`This session has no task yet. <code>holdfast task set --goal …</code> begins one.` : "")}</p>`;
    }
    const blocked = row(known["blocked"]);
    return html`<section class="task" aria-label="Task">
      ${this.said ? html`<p class="trouble" role="alert">${this.said}</p>` : nothing}
      <h2>${line(known["goal"], TEXT)}</h2>
      <p class="said">changed ${age(String(known["updated"] ?? ""))} by ${line(known["by"], 80)}</p>
      ${blocked["why"] ? html`<p class="blocked"><strong>Blocked:</strong> ${line(blocked["why"], TEXT)} <strong>Needs:</strong> ${line(blocked["needs"], TEXT)}</p>` : nothing}
      ${known["resume_at"] ? html`<p><strong>Continue at:</strong> ${line(known["resume_at"], TEXT)}</p>` : nothing}
      ${rows(known["phases"]).map((phase, major) => html`<h3>${line(phase["title"], TEXT)}</h3>
        <ol class="steps">${rows(phase["steps"]).map((step, minor) => this.step(`${major + 1}.${minor + 1}`, step))}</ol>`)}
      ${this.questions(rows(known["questions"]))}
      ${listed("Decisions", rows(known["decisions"]))} ${listed("Not taken", rows(known["alternatives"]))}
      ${listed("Risks", rows(known["risks"]))} ${listed("Notes", rows(known["notes"]))}
      ${listed("Files to read again", rows(known["files"]), "path")} ${listed("Artifacts", rows(known["artifacts"]), "name", "path")}
    </section>`;
  }

  private step(number: string, step: Row) {
    const status = String(step["status"] ?? "open");
    const claim = row(step["claim"]);
    const attempts = rows(step["attempts"]);
    const last = attempts.at(-1);
    return html`<li class="step ${status in MARKS ? status : ""}">
      <span class="sign" title=${line(status, 20)}>${MARKS[status] ?? "○"}</span> ${number} ${line(step["title"], TEXT)}
      ${claim["by"] ? html`<small>${line(claim["by"], 80)} is at it</small>` : nothing}
      ${step["verify"] ? html`<code>${line(step["verify"], 200)}</code>` : nothing}
      ${last ? html`<small>${counted(attempts.length + (Number(step["earlier_attempts"]) || 0), "attempt")}, the last ${line(last["outcome"], 20)}${last["failure_detail"] ? `: ${line(last["failure_detail"], 200)}` : ""}</small>` : nothing}
    </li>`;
  }

  private questions(found: Row[]) {
    if (!found.length) return nothing;
    return html`<h3>Open questions</h3><ol>${found.map((each, index) => html`<li>
      <form class="bar" @submit=${(event: SubmitEvent) => void this.answer(event, index + 1)}>
        <label>${line(each["text"], TEXT)} <small>${line(each["by"], 80)}</small>
          <input name="answer" required maxlength=${TEXT} autocomplete="off"></label>
        <button class="primary">Answer</button>
      </form></li>`)}</ol>`;
  }
}
customElements.define("task-view", TaskView);

function listed(title: string, found: Row[], name = "text", more = "why"): TemplateResult | typeof nothing {
  if (!found.length) return nothing;
  return html`<h3>${title}</h3><ul>${found.map((each) => html`<li>${line(each[name], TEXT)}
    ${each[more] ? html`<small>${line(each[more], TEXT)}</small>` : nothing}</li>`)}</ul>`;
}

function row(value: unknown): Row {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Row) : {};
}

function rows(value: unknown): Row[] {
  return Array.isArray(value) ? value.map(row) : [];
}
