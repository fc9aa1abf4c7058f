// The tasks of all sessions: how far each is, what blocks it, who is at it.

import { html, LitElement, nothing } from "lit";

import { explained, get } from "./api";
import { age, counted, line } from "./texts";

interface Standing {
  session_id: string;
  session: string;
  session_state: string;
  state: string;
  goal: string;
  done: number;
  steps: number;
  step: string;
  blocked: string;
  needs: string;
  questions: number;
  claimed_by: string;
  by: string;
  updated: string;
}

const EVERY = 5_000;
const ORDER = ["blocked", "active", "planned", "unreadable", "done"];

export class TaskBoard extends LitElement {
  static override properties = { found: { state: true }, said: { state: true } };
  declare found: readonly Standing[] | null;
  declare said: string;
  private timer = 0;

  constructor() {
    super();
    this.found = null;
    this.said = "";
  }

  protected override createRenderRoot(): HTMLElement {
    return this;
  }

  override connectedCallback(): void {
    super.connectedCallback();
    void this.look();
    this.timer = window.setInterval(() => {
      if (!document.hidden) void this.look();
    }, EVERY);
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    clearInterval(this.timer);
  }

  private async look(): Promise<void> {
    try {
      const found = await get<Standing[]>("/v1/board");
      this.found = found.sort((one, other) => ORDER.indexOf(one.state) - ORDER.indexOf(other.state));
      this.said = "";
    } catch (error) {
      this.said = explained(error);
    }
  }

  protected override render() {
    if (this.said) return html`<p class="empty" role="status">${this.said}</p>`;
    if (!this.found) return nothing;
    if (!this.found.length) return html`<p class="empty">There is no task yet. <code>holdfast task set --goal …</code> begins one.</p>`;
    return html`<ul class="board" aria-label="Tasks">${this.found.map((each) => html`<li>
      <a class="task" href="#/s/${encodeURIComponent(each.session)}/task">
        <span class="state ${each.state}">${line(each.state, 20)}</span>
        <span class="name">${line(each.session)}</span>
        <span class="goal">${line(each.goal, 300)}</span>
        <span class="far"><progress aria-label="Steps done" max=${Math.max(1, each.steps)} .value=${each.done}></progress> ${each.done} of ${each.steps}</span>
        <span class="age">${age(each.updated)}</span>
        <span class="doing">${each.blocked ? `${line(each.blocked, 200)}; needs ${line(each.needs, 200)}` : line(each.step, 200)}
          ${each.claimed_by ? html`<small>${line(each.claimed_by, 80)} is at it</small>` : nothing}
          ${each.questions ? html`<small>${counted(each.questions, "open question")}</small>` : nothing}</span>
      </a></li>`)}</ul>`;
  }
}
customElements.define("task-board", TaskBoard);
