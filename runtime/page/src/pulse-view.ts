// What goes on in a session, renewed while it is looked at: use of the machine, processes, ports, kernels.

import { html, LitElement, nothing } from "lit";

import { explained, get, place } from "./api";
import { bytes, line, seconds } from "./texts";

const EVERY = 3_000;
const MOST = 200;
const PARTS = ["processes", "sockets", "limits", "kernels"];

type Row = Record<string, unknown>;

export class PulseView extends LitElement {
  static override properties = { session: {}, found: { state: true }, said: { state: true } };
  declare session: string;
  declare found: Row | null;
  declare said: string;
  private timer = 0;
  private asking = false;

  constructor() {
    super();
    this.session = "";
    this.found = null;
    this.said = "";
  }

  protected override createRenderRoot(): HTMLElement {
    return this;
  }

  override connectedCallback(): void {
    super.connectedCallback();
    this.timer = window.setInterval(() => void this.look(), EVERY);
  }

  protected override firstUpdated(): void {
    void this.look();
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    clearInterval(this.timer);
  }

  private async look(): Promise<void> {
    if (document.hidden || this.asking) return;
    this.asking = true;
    try {
      this.found = await get<Row>(`${place("sessions", this.session)}/pulse`, { part: PARTS });
      this.said = "";
    } catch (error) {
      this.said = explained(error);
    }
    this.asking = false;
  }

  protected override render() {
    const { found } = this;
    return html`<section class="pulse" aria-label="Pulse">
      ${this.said ? html`<p class="said" role="status">${this.said}</p>` : nothing}
      ${found ? html`${this.limits(table(found["limits"]))} ${this.processes(list(found["processes"]))}
        ${this.ports(list(found["sockets"]), list(found["processes"]))} ${this.kernels(list(found["kernels"]))}` : nothing}
    </section>`;
  }

  private limits(limits: Row) {
    const [memory, cpu, pids] = [table(limits["memory"]), table(limits["cpu"]), table(limits["pids"])];
    const kills = number(memory["oom_kills"]);
    return html`<dl class="figures">
      <div><dt>Memory</dt><dd>${bytes(number(memory["used"]))}${number(memory["limit"]) ? ` of ${bytes(number(memory["limit"]))}` : ""}</dd>
        ${number(memory["limit"]) ? html`<meter aria-label="Memory" min="0" max=${number(memory["limit"])} high=${number(memory["limit"]) * 0.9} .value=${number(memory["used"])}></meter>` : nothing}</div>
      <div><dt>Processor time</dt><dd>${seconds(number(cpu["seconds"]))}${number(cpu["limit"]) ? `, at most ${number(cpu["limit"])} processors` : ""}</dd></div>
      <div><dt>Processes and threads</dt><dd>${number(pids["current"])}${number(pids["limit"]) ? ` of ${number(pids["limit"])}` : ""}</dd></div>
      ${kills ? html`<div class="trouble"><dt>Killed for memory</dt><dd>${kills}</dd></div>` : nothing}
    </dl>`;
  }

  private processes(rows: Row[]) {
    const shown = [...rows].sort((one, other) => number(other["cpu_percent"]) - number(one["cpu_percent"]) || number(other["resident"]) - number(one["resident"]));
    return html`<h3>Processes</h3><table>
      <thead><tr><th>PID</th><th>CPU</th><th>Memory</th><th>Age</th><th>Command</th></tr></thead>
      <tbody>${shown.slice(0, MOST).map((each) => html`<tr>
        <td>${number(each["pid"])}</td><td>${number(each["cpu_percent"]).toFixed(0)} %</td><td>${bytes(number(each["resident"]))}</td>
        <td>${seconds(number(each["age"]))}</td>
        <td><code>${line(each["command"] || each["name"], 200)}</code> <small>${line(table(each["origin"])["actor"], 60)}</small></td>
      </tr>`)}</tbody></table>`;
  }

  private ports(sockets: Row[], processes: Row[]) {
    const names = new Map(processes.map((each) => [each["pid"], line(each["name"], 60)]));
    const open = sockets.filter((each) => each["state"] === "listening" && typeof each["local_port"] === "number");
    if (!open.length) return nothing;
    return html`<h3>Ports</h3><ul>${open.slice(0, MOST).map((each) => html`<li>
      ${number(each["local_port"])} at ${line(each["local"], 60)} ${names.get(list(each["owners"])[0]?.["pid"]) ?? ""}</li>`)}</ul>`;
  }

  private kernels(rows: Row[]) {
    if (!rows.length) return nothing;
    return html`<h3>Kernels</h3><ul>${rows.map((each) => html`<li>${line(each["name"], 60)} (${line(each["spec"], 40)}): ${line(each["state"], 20)}, ${number(each["execution_count"])} cells</li>`)}</ul>`;
  }
}
customElements.define("pulse-view", PulseView);

function table(value: unknown): Row {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Row) : {};
}

function list(value: unknown): Row[] {
  return Array.isArray(value) ? value.map(table) : [];
}

function number(value: unknown): number {
  return typeof value === "number" && Number.isFinite(value) ? value : 0;
}
