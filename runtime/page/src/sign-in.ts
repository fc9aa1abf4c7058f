// People who sign in: the buttons that lead to an issuer, the way back from one, and the key that is renewed meanwhile.

import { html, LitElement, nothing } from "lit";

import { ApiError, asSignedIn, asStranger, forgetKey, key, useKey } from "./api";
import { line } from "./texts";

const PLACE = "holdfast-place", SIGNED_IN = "holdfast-signed-in", TEAM = "holdfast-team";
const EARLY = 60;

interface Told {
  key: string;
  actor: string;
  team: string | null;
  seconds: number;
}

let timer = 0;
/** What a person of several teams has to say before they get a key; the empty name is the server's own home. */
let choice: { teams: readonly string[]; body: object } | null = null;

/** Who has signed in to this tab; empty for a page that a link has opened. */
function whoSignedIn(): string {
  return sessionStorage.getItem(SIGNED_IN) ?? "";
}

/** Enter by the code that the server has put behind the address; false if there is none. */
export async function enterBy(entry: string | null): Promise<boolean> {
  if (entry === null) return false;
  // At once: the code is neither to be sent twice nor to be seen.
  history.replaceState(null, "", "#/");
  await exchange({ entry });
  returnToPlace();
  return true;
}

/** Enter again by the cookie of an earlier sign-in, or by the proxy in front; false if there is none. */
export async function resume(): Promise<boolean> {
  try {
    await exchange({});
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status === 401 || error.status === 404 || error.status === 0) return false;
    throw error;
  }
  returnToPlace();
  return true;
}

async function exchange(body: object): Promise<void> {
  const team = sessionStorage.getItem(TEAM);
  const told = (await (await asSignedIn("/sign-in/key", team === null ? body : { team, ...body })).json()) as Told | { teams: string[] };
  choice = "teams" in told ? { teams: told.teams, body } : null;
  if ("teams" in told) return;
  const lasts = "entry" in body && location.protocol === "http:";
  useKey(told.key, lasts);
  sessionStorage.setItem(SIGNED_IN, told.team ? `${told.actor} in ${told.team}` : told.actor);
  sessionStorage.setItem(TEAM, told.team ?? "");
  clearTimeout(timer);
  if (!lasts) timer = window.setTimeout(() => void resume().catch(() => undefined), Math.max(told.seconds - EARLY, 5) * 1000);
}

/** Show what was shown before the person went to sign in. */
function returnToPlace(): void {
  const place = sessionStorage.getItem(PLACE);
  sessionStorage.removeItem(PLACE);
  if (place?.startsWith("#/")) history.replaceState(null, "", place);
}

export class SignIn extends LitElement {
  static override properties = { issuers: { state: true } };
  declare issuers: readonly { name: string }[];

  constructor() {
    super();
    this.issuers = [];
  }

  protected override createRenderRoot(): HTMLElement {
    return this;
  }

  override connectedCallback(): void {
    super.connectedCallback();
    void asStranger<{ issuers: { name: string }[] }>("/sign-in").then(
      (told) => (this.issuers = told.issuers),
      () => undefined, // this server has no sign-in
    );
  }

  private async choose(team: string): Promise<void> {
    await exchange({ ...choice?.body, team }).catch(() => undefined); // then it begins again
    location.reload();
  }

  private readonly leave = (): void => {
    sessionStorage.removeItem(TEAM);
    if (location.hash.startsWith("#/")) sessionStorage.setItem(PLACE, location.hash);
  };

  protected override render() {
    if (choice)
      return choice.teams.map(
        (each) => html`<p><button @click=${() => void this.choose(each)}>${each ? `Team ${line(each, 40)}` : "No team"}</button></p>`,
      );
    return this.issuers.map(
      (each) => html`<p><a class="button" href="/sign-in/with/${encodeURIComponent(each.name)}" @click=${this.leave}
        >Sign in with ${line(each.name, 40)}</a></p>`,
    );
  }
}
customElements.define("sign-in", SignIn);

export class SignOut extends LitElement {
  protected override createRenderRoot(): HTMLElement {
    return this;
  }

  private readonly end = async (): Promise<void> => {
    try {
      await asSignedIn("/sign-in/end", {}, { Authorization: `Bearer ${key()}` });
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 401) throw error;
    }
    clearTimeout(timer);
    forgetKey();
    sessionStorage.removeItem(SIGNED_IN);
    sessionStorage.removeItem(TEAM);
    location.reload();
  };

  protected override render() {
    const who = whoSignedIn();
    return who && key()
      ? html`<span class="who">${line(who, 80)}</span> <button @click=${this.end}>Sign out</button>`
      : nothing;
  }
}
customElements.define("sign-out", SignOut);
