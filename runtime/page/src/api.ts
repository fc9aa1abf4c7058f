// The server's API as the page uses it: the key of this tab, requests, and errors as one line.

const KEY = "holdfast-key";

/** A request that the server refused, in its own words. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly hint: string,
  ) {
    super(hint ? `${message} (${hint})` : message);
  }
}

export interface Lifetime {
  ends_at: number | null;
  asleep: string | null;
  trouble: string | null;
}

export interface SessionInfo {
  id: string;
  name: string;
  state: string;
  image: string;
  created_at: string;
  parent_snapshot_id: string | null;
  generation: number;
  lifetime: Lifetime | null;
}

export interface Observed {
  state: string;
  detail: string | null;
  pid: number | null;
  command: string;
  since: number;
  prompt: string;
}

export interface ShellInfo {
  name: string;
  state: string;
  command_id: string | null;
  observed: Observed | null;
  lease: { holder: string | null } | null;
  cwd: string;
}

export interface Lease {
  holder: string | null;
  attached: readonly { actor: string; writes: boolean }[];
}

export interface SnapshotInfo {
  id: string;
  name: string;
  label: string | null;
  kind: "live" | "filesystem";
  state: string;
  session_id: string;
  parent_id: string | null;
  bytes: number;
  created_at: string;
  reason: string | null;
  pinned: boolean;
}

export interface FileInfo {
  name: string;
  kind: string;
  size: number;
  mode: string;
  mtime_ns: number;
  target: string | null;
}

/** An entry of the journal, or an event. Its further fields come from the session and may be anything. */
export interface Entry {
  seq: number;
  at: number;
  kind: string;
  actor?: string;
  [field: string]: unknown;
}

/** The key of a person who has signed in by a cookie; a reload asks for a new one. */
let held = "";

/** The key of this tab; empty before a link was followed, or someone signed in. It ends with the tab. */
export function key(): string {
  return held || (sessionStorage.getItem(KEY) ?? "");
}

/** Use a key: until the tab ends, or in memory alone. */
export function useKey(text: string, lasts: boolean): void {
  held = lasts ? "" : text;
  if (lasts) sessionStorage.setItem(KEY, text);
}

export function forgetKey(): void {
  held = "";
  sessionStorage.removeItem(KEY);
}

/** Exchange the ticket of a link for the key of this tab. */
export async function enter(ticket: string): Promise<void> {
  const answer = await request("/page/keys", { method: "POST", headers: { Authorization: `Bearer ${ticket}` } });
  const told = (await answer.json()) as { key: string };
  sessionStorage.setItem(KEY, told.key);
}

export async function get<T>(path: string, params: Record<string, string | number | readonly string[]> = {}): Promise<T> {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    for (const each of Array.isArray(value) ? value : [value]) query.append(name, String(each));
  }
  const asked = query.size ? `${path}?${query}` : path;
  return (await (await authorized(asked, {})).json()) as T;
}

export async function send<T>(method: string, path: string, body?: unknown): Promise<T | null> {
  const answer = await authorized(path, {
    method,
    headers: { "Content-Type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  return text ? (JSON.parse(text) as T) : null;
}

export async function upload(path: string, content: Blob): Promise<void> {
  await authorized(path, { method: "PUT", body: content, headers: { "Content-Type": "application/octet-stream" } });
}

export async function download(path: string, range?: string): Promise<Blob> {
  const answer = await authorized(path, range ? { headers: { Range: range } } : {});
  return answer.blob();
}

/** The path of something of a session; its parts may have any characters. */
export function place(...parts: string[]): string {
  return ["/v1", ...parts.map(encodeURIComponent)].join("/");
}

/** Ask the server with the cookie of whoever has signed in, which nothing else is asked with. */
export async function asSignedIn(path: string, body: unknown, headers: Record<string, string> = {}): Promise<Response> {
  return request(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", ...headers },
    body: JSON.stringify(body),
    credentials: "same-origin",
  });
}

/** Ask the server as a stranger does. */
export async function asStranger<T>(path: string): Promise<T> {
  return (await (await request(path, {})).json()) as T;
}

function authorized(path: string, how: RequestInit): Promise<Response> {
  const headers = new Headers(how.headers);
  headers.set("Authorization", `Bearer ${key()}`);
  return request(path, { ...how, headers });
}

async function request(path: string, how: RequestInit): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(path, { credentials: "omit", ...how, redirect: "error", cache: "no-store" });
  } catch {
    throw new ApiError(0, "unreachable", "the server does not answer", "");
  }
  if (answer.ok) return answer;
  throw await errorOf(answer);
}

async function errorOf(answer: Response): Promise<ApiError> {
  try {
    const { error } = (await answer.json()) as { error: { code: string; message: string; hint?: string } };
    return new ApiError(answer.status, error.code, error.message, error.hint ?? "");
  } catch {
    return new ApiError(answer.status, "unknown", `the server answered ${answer.status}`, "");
  }
}

/** An error as one line for a person. */
export function explained(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
