// Links by which others see this session: made, listed with their visits, and revoked.

import { html, LitElement, nothing } from "lit";

import { explained, get, place, send } from "./api";
import { counted, line } from "./texts";

interface SharedLink {
  name: string;
  may: string;
  state: string;
  expires_at: number;
  visits: number;
  url: string;
}

const TIMES: readonly (readonly [number, string])[] = [[1_800, "30 minutes"], [7_200, "2 hours"], [86_400, "a day"], [604_800, "a week"]];

export class ShareLinks extends LitElement {
  static override properties = {
    session: {}, open: { state: true }, found: { state: true }, made: { state: true }, said: { state: true }, busy: { state: true },
  };
  declare session: string;
  declare open: boolean;
  declare found: readonly SharedLink[];
  /** The link that was made last, with its address. */
  declare made: SharedLink | null;
  declare said: string;
  declare busy: boolean;

  constructor() {
    super();
    this.session = "";
    this.open = false;
    this.found = [];
    this.made = null;
    this.said = "";
    this.busy = false;
  }

  protected override createRenderRoot(): HTMLElement {
    return this;
  }

  protected override updated(): void {
    const dialog = this.querySelector("dialog");
    if (dialog && !dialog.open) dialog.showModal();
  }

  private get path(): string {
    return `${place("sessions", this.session)}/links`;
  }

  private async work(work: () => Promise<void>): Promise<void> {
    this.said = "";
    this.busy = true;
    try {
      await work();
      this.found = (await get<SharedLink[]>(this.path)).filter((each) => each.state === "valid");
    } catch (error) {
      this.said = explained(error);
    }
    this.busy = false;
  }

  private show(): void {
    this.open = true;
    this.made = null;
    void this.work(async () => {});
  }

  private readonly share = (event: SubmitEvent): void => {
    event.preventDefault();
    const fields = new FormData(event.target as HTMLFormElement);
    const body = { typing: fields.get("may") === "type", seconds: Number(fields.get("seconds")) };
    void this.work(async () => {
      this.made = await send<SharedLink>("POST", this.path, body);
    });
  };

  private revoke(each: SharedLink): void {
    void this.work(async () => {
      await send("DELETE", `${this.path}/${encodeURIComponent(each.name)}`);
      if (this.made?.name === each.name) this.made = null;
    });
  }

  private copy(): void {
    navigator.clipboard?.writeText(this.made?.url ?? "").then(() => (this.said = "copied"), () => (this.said = "this browser does not let pages copy: select the link"));
  }

  protected override render() {
    return html`<button @click=${() => this.show()}>Share</button>${this.open ? this.dialog() : nothing}`;
  }

  private dialog() {
    return html`<dialog aria-label="Share this session" @close=${() => (this.open = false)}>
      <form @submit=${this.share}>
        <p>A link lets others see this session in their browser, and no other.</p>
        <label>They may <select name="may"><option value="watch">watch</option><option value="type">type as well</option></select></label>
        <label>for <select name="seconds">${TIMES.map(([seconds, text]) => html`<option value=${seconds} ?selected=${seconds === 7_200}>${text}</option>`)}</select></label>
        <button class="primary" ?disabled=${this.busy}>Make a link</button>
      </form>
      ${this.made
        ? html`<p class="made"><input readonly aria-label="The link" .value=${this.made.url} @focus=${(event: Event) => (event.target as HTMLInputElement).select()}>
            <button @click=${() => this.copy()}>Copy</button></p>`
        : nothing}
      ${this.said ? html`<p class="said" role="status">${this.said}</p>` : nothing}
      <ul aria-label="Links">
        ${this.found.map((each) => html`<li>${line(each.name, 40)}: may ${line(each.may, 10)}, until ${new Date(each.expires_at * 1000).toLocaleString()},
          ${counted(each.visits, "visit")} <button ?disabled=${this.busy} @click=${() => this.revoke(each)}>Revoke</button></li>`)}
      </ul>
      <menu><button @click=${() => this.querySelector("dialog")?.close()}>Close</button></menu>
    </dialog>`;
  }
}
customElements.define("share-links", ShareLinks);
