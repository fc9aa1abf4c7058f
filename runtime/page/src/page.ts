// The page: who it acts for, the sessions, and which of them is shown.

import { html, LitElement, nothing } from "lit";
import { keyed } from "lit/directives/keyed.js";

import { ApiError, enter, explained, forgetKey, get, key, place, type SessionInfo } from "./api";
import { channels } from "./channels";
import { desktopNotices } from "./desktop-notices";
import "./notice-settings";
import "./session-list";
import "./session-view";
import { enterBy, resume } from "./sign-in";
import "./task-board";
import { line } from "./texts";

const EVERY = 3_000;
const OVERVIEWS = ["board", "notices"];

export class HoldfastPage extends LitElement {
  static override properties = {
    sessions: { state: true }, shown: { state: true }, view: { state: true }, trouble: { state: true }, entered: { state: true },
    connected: { state: true },
  };
  declare sessions: readonly SessionInfo[] | null;
  declare shown: string;
  /** The part of a session that is shown; without a session, the board or the list. */
  declare view: string;
  declare trouble: string;
  declare entered: boolean;
  declare connected: boolean;
  private timer = 0;

  constructor() {
    super();
    this.sessions = null;
    this.shown = "";
    this.view = "";
    this.trouble = "";
    this.entered = false;
    this.connected = true;
  }

  protected override createRenderRoot(): HTMLElement {
    return this;
  }

  override connectedCallback(): void {
    super.connectedCallback();
    addEventListener("hashchange", () => void this.arrive());
    addEventListener("online", () => channels.hurry());
    addEventListener("keydown", this.pressed);
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) return;
      channels.hurry();
      void this.look();
    });
    channels.onConnected = (connected) => (this.connected = connected);
    void this.arrive();
    setInterval(() => {
      if ((!document.hidden || desktopNotices.wanted) && this.entered) void this.look();
    }, EVERY);
    // A notification was clicked: show what it is about.
    navigator.serviceWorker?.addEventListener("message", ({ data }) => {
      const show = (data as { show?: unknown } | null)?.show;
      if (typeof show === "string" && /^#\/(s\/[A-Za-z0-9_.%-]+)?$/.test(show)) location.hash = show;
    });
  }

  /** Follow the address: a link with a ticket, a session, or the list. */
  private async arrive(): Promise<void> {
    const given = new URLSearchParams(location.hash.slice(1));
    const ticket = given.get("ticket");
    if (ticket !== null) {
      const session = given.get("session");
      // At once: the ticket is neither to be sent twice nor to be seen.
      history.replaceState(null, "", session ? `#/s/${encodeURIComponent(session)}` : "#/");
      try {
        await enter(ticket);
      } catch (error) {
        if (!key()) this.trouble = explained(error);
      }
    }
    try {
      if (!(await enterBy(given.get("entry"))) && !key()) await resume();
    } catch (error) {
      this.trouble = explained(error);
    }
    const found = /^#\/s\/([^/]+)(?:\/([a-z]+))?$/.exec(location.hash);
    this.shown = found?.[1] ? decoded(found[1]) : "";
    this.view = found?.[2] ?? OVERVIEWS.find((each) => location.hash === `#/${each}`) ?? "";
    document.title = this.shown ? `${line(this.shown, 80)} · Holdfast` : "Holdfast";
    this.entered = key() !== "";
    if (this.entered) await this.look();
  }

  private async look(): Promise<void> {
    try {
      this.sessions = await this.known();
      desktopNotices.watch(this.sessions);
      this.trouble = "";
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) {
        forgetKey();
        this.entered = await resume().catch(() => false);
        if (!this.entered) this.trouble = "the key of this page has ended";
      } else this.trouble = explained(error);
    }
  }

  /** The sessions that the key of this page opens: all, or the one that it is for. */
  private async known(): Promise<SessionInfo[]> {
    try {
      return await get<SessionInfo[]>("/v1/sessions");
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 403 && this.shown)) throw error;
      return [await get<SessionInfo>(place("sessions", this.shown))];
    }
  }

  private readonly stale = (): void => {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => void this.look(), 200);
  };

  private readonly pressed = (event: KeyboardEvent): void => {
    const typing = event.composedPath().some((each) => each instanceof HTMLInputElement || each instanceof HTMLTextAreaElement);
    if (!typing && event.key === "Escape" && this.shown && !document.querySelector("dialog")) location.hash = "#/";
  };

  protected override render() {
    if (!this.entered) return this.door();
    const session = this.sessions?.find((each) => each.name === this.shown || each.id === this.shown);
    return html`
      ${this.trouble || !this.connected
        ? html`<p class="banner" role="status">${this.trouble || "the connection to the server is lost"}; trying again</p>`
        : nothing}
      ${session
        ? keyed(session.id, html`<session-view .session=${session} .view=${this.view} @stale=${this.stale}></session-view>`)
        : this.shown && this.sessions
          ? html`<p class="empty">There is no session of that name. <a href="#/">All sessions</a></p>`
          : html`<header class="bar"><h1>Holdfast</h1>
                <nav aria-label="Views">
                  <a class="button" href="#/" aria-current=${this.view === "" ? "page" : nothing}>sessions</a>
                  ${OVERVIEWS.map((each) => html`<a class="button" href="#/${each}" aria-current=${this.view === each ? "page" : nothing}>${each}</a>`)}
                </nav><sign-out></sign-out></header>
              ${this.view === "board" ? html`<task-board></task-board>`
                : this.view === "notices" ? html`<notice-settings .sessions=${this.sessions ?? []}></notice-settings>`
                : this.sessions ? html`<session-list .sessions=${this.sessions}></session-list>` : nothing}`}`;
  }

  private door() {
    return html`<section class="door">
      <h1>Holdfast</h1>
      ${this.trouble ? html`<p class="trouble" role="alert">${this.trouble}</p>` : nothing}
      <sign-in></sign-in>
      <p>This page opens by a link, which works once: <code>holdfast open</code> makes one.</p>
    </section>`;
  }
}
customElements.define("holdfast-page", HoldfastPage);

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
