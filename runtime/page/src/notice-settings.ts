// Who is told, and where: this browser by push, this tab, and URLs; per session, with quiet hours.

import { html, LitElement, nothing } from "lit";

import { explained, get, send, type SessionInfo } from "./api";
import { desktopNotices } from "./desktop-notices";
import { age, counted, line } from "./texts";

interface Subscription {
  id: string;
  way: "webhook" | "push";
  url: string;
  session: string | null;
  kinds: readonly string[];
  after: number;
  quiet: string;
  told_at: number | null;
  failures: number;
  trouble: string;
  secret: string | null;
}

const WORKER = "/page/notice-worker.js";
const KINDS: readonly (readonly [string, string])[] = [
  ["waiting", "something waits for input"], ["ended", "something long has ended"], ["failed", "something has failed"],
  ["died", "a session has died"],
];

export class NoticeSettings extends LitElement {
  static override properties = {
    sessions: { attribute: false }, found: { state: true }, said: { state: true }, secret: { state: true },
    desktop: { state: true }, own: { state: true }, busy: { state: true },
  };
  declare sessions: readonly SessionInfo[];
  declare found: readonly Subscription[] | null;
  declare said: string;
  declare secret: string;
  declare desktop: boolean;
  /** The endpoint of this browser, if it has one. */
  declare own: string;
  declare busy: boolean;

  constructor() {
    super();
    this.sessions = [];
    this.found = null;
    this.said = "";
    this.secret = "";
    this.desktop = desktopNotices.wanted;
    this.own = "";
    this.busy = false;
  }

  protected override createRenderRoot(): HTMLElement {
    return this;
  }

  protected override firstUpdated(): void {
    void this.work(async () => {
      const registration = await navigator.serviceWorker?.getRegistration(WORKER);
      this.own = (await registration?.pushManager?.getSubscription())?.endpoint ?? "";
    });
  }

  private async work(work: () => Promise<void>): Promise<void> {
    this.said = "";
    this.busy = true;
    try {
      await work();
      this.found = await get<Subscription[]>("/v1/notices");
    } catch (error) {
      this.said = explained(error);
    }
    this.busy = false;
  }

  /** What the form says: the session, the kinds, the hours. */
  private chosen(): Record<string, unknown> {
    const fields = new FormData(this.querySelector<HTMLFormElement>("form.wishes")!);
    const session = String(fields.get("session") ?? "");
    const [begin, end] = [String(fields.get("begin") ?? ""), String(fields.get("end") ?? "")];
    const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
    return {
      ...(session ? { session } : {}),
      kinds: fields.getAll("kind"),
      after: Number(fields.get("after")) || 0,
      quiet: begin && end ? `${begin}-${end} ${zone}` : "",
    };
  }

  private push(): Promise<void> {
    return this.work(async () => {
      if (!("serviceWorker" in navigator) || !("PushManager" in window)) {
        throw new Error("this browser has no push here: it needs https, or the name localhost");
      }
      if ((await Notification.requestPermission()) !== "granted") throw new Error("this browser does not allow notifications here");
      const { key } = await get<{ key: string }>("/v1/notices/push-key");
      await navigator.serviceWorker.register(WORKER);
      const registration = await ready();
      const made = await registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: bytesOf(key) });
      const { endpoint, keys } = made.toJSON();
      await send("POST", "/v1/notices", { endpoint, keys: { p256dh: keys?.["p256dh"], auth: keys?.["auth"] }, ...this.chosen() });
      this.own = endpoint ?? "";
    });
  }

  private readonly hook = (event: SubmitEvent): void => {
    event.preventDefault();
    const field = (event.target as HTMLFormElement).elements.namedItem("url") as HTMLInputElement;
    void this.work(async () => {
      const made = await send<Subscription>("POST", "/v1/notices", { webhook: field.value, ...this.chosen() });
      this.secret = made?.secret ?? "";
      field.value = "";
    });
  };

  private try(each: Subscription): Promise<void> {
    return this.work(async () => {
      const done = await send<{ trouble: string }>("POST", `/v1/notices/${encodeURIComponent(each.id)}/try`);
      this.said = done?.trouble ? `it did not arrive: ${line(done.trouble, 200)}` : "it has arrived";
    }).then(() => {});
  }

  private end(each: Subscription): Promise<void> {
    return this.work(async () => {
      await send("DELETE", `/v1/notices/${encodeURIComponent(each.id)}`);
      if (each.url !== this.own) return;
      const registration = await navigator.serviceWorker?.getRegistration(WORKER);
      await (await registration?.pushManager?.getSubscription())?.unsubscribe();
      this.own = "";
    });
  }

  protected override render() {
    return html`<section class="notices" aria-label="Notices">
      <form class="wishes" @submit=${(event: Event) => event.preventDefault()}>
        <fieldset><legend>Tell me when</legend>
          ${KINDS.map(([kind, text]) => html`<label><input type="checkbox" name="kind" value=${kind} checked> ${text}</label>`)}
          <label>Long is at least <input type="number" name="after" min="0" max="86400" value="60"> seconds</label>
          <label>Of <select name="session"><option value="">all sessions</option>
            ${this.sessions.map((each) => html`<option value=${each.name}>${line(each.name, 60)}</option>`)}</select></label>
          <label>Quiet from <input type="time" name="begin"></label><label>to <input type="time" name="end"></label>
        </fieldset>
      </form>
      <div class="bar">
        <button class="primary" ?disabled=${this.busy} @click=${() => void this.push()}>Tell this device</button>
        <label><input type="checkbox" .checked=${this.desktop} @change=${(event: Event) => void this.turn(event)}> Tell me by this tab while it is open</label>
      </div>
      <form class="bar" @submit=${this.hook}>
        <label>Or send it to <input name="url" type="url" required placeholder="https://…"></label><button ?disabled=${this.busy}>Add</button>
      </form>
      ${this.secret ? html`<p role="status">Its requests are signed (Standard Webhooks); the secret is shown once: <code>${this.secret}</code></p>` : nothing}
      ${this.said ? html`<p class="said" role="status">${this.said}</p>` : nothing}
      ${this.found?.length ? html`<h3>Who is told</h3><ul>${this.found.map((each) => this.row(each))}</ul>` : nothing}
    </section>`;
  }

  private row(each: Subscription) {
    const session = this.sessions.find((other) => other.id === each.session)?.name ?? each.session;
    return html`<li><strong>${each.way === "push" ? (each.url === this.own ? "this device" : "a browser") : line(each.url, 100)}</strong>
      <span>${session ? line(session, 60) : "all sessions"}: ${each.kinds.map((kind) => line(kind, 20)).join(", ")}${each.quiet ? `; quiet ${line(each.quiet, 60)}` : ""}</span>
      <small>${each.told_at ? `last ${age(each.told_at)}` : "not yet used"}</small>
      ${each.trouble ? html`<small class="trouble">${line(each.trouble, 200)} (${counted(each.failures, "time")})</small>` : nothing}
      <button ?disabled=${this.busy} @click=${() => void this.try(each)}>Try</button>
      <button ?disabled=${this.busy} @click=${() => void this.end(each)}>Remove</button></li>`;
  }

  private async turn(event: Event): Promise<void> {
    const field = event.target as HTMLInputElement;
    this.desktop = await desktopNotices.turn(field.checked);
    field.checked = this.desktop;
    if (this.desktop) desktopNotices.watch(this.sessions);
    else if (Notification.permission === "denied") this.said = "this browser does not allow notifications here";
  }
}
customElements.define("notice-settings", NoticeSettings);

/** The registration of the worker, once it is active. The page itself is outside of its scope. */
async function ready(): Promise<ServiceWorkerRegistration> {
  const registration = await navigator.serviceWorker.getRegistration(WORKER);
  if (!registration) throw new Error("this browser did not start the page's service worker");
  const coming = registration.installing ?? registration.waiting;
  if (coming && !registration.active) {
    await new Promise<void>((done) => coming.addEventListener("statechange", () => {
      if (coming.state === "activated" || coming.state === "redundant") done();
    }));
  }
  return registration;
}

function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  const encoded = text.replace(/-/g, "+").replace(/_/g, "/");
  return Uint8Array.from(atob(encoded), (each) => each.charCodeAt(0));
}
