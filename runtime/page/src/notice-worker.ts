// The service worker of notices: shows what the server pushes, and opens its session. It serves no page and
// keeps nothing; texts come from sessions, and a notification shows them as text.

interface Pushed {
  kind: string;
  session: string;
  session_id: string;
  title: string;
  text: string;
}

interface WorkerClient {
  readonly url: string;
  focus(): Promise<WorkerClient>;
  postMessage(message: unknown): void;
}

/** What of a service worker's scope is used here; the types of the page are those of a window. */
interface WorkerScope {
  readonly registration: ServiceWorkerRegistration;
  readonly location: Location;
  readonly clients: {
    matchAll(options: object): Promise<readonly WorkerClient[]>;
    openWindow(url: string): Promise<WorkerClient | null>;
    claim(): Promise<void>;
  };
  skipWaiting(): Promise<void>;
  addEventListener(kind: string, heard: (event: WorkerEvent) => void): void;
}

interface WorkerEvent extends Event {
  readonly data?: { json(): unknown } | null;
  readonly notification?: Notification;
  waitUntil(work: Promise<unknown>): void;
}

const worker = self as unknown as WorkerScope;
const NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$/;

worker.addEventListener("install", (event) => event.waitUntil(worker.skipWaiting()));
worker.addEventListener("activate", (event) => event.waitUntil(worker.clients.claim()));

worker.addEventListener("push", (event) => {
  const { kind, session, session_id, title, text } = pushed(event);
  event.waitUntil(
    worker.registration.showNotification(title, {
      body: text,
      tag: `${session_id} ${kind}`,
      requireInteraction: kind === "waiting",
      data: { session },
    }),
  );
});

worker.addEventListener("notificationclick", (event) => {
  event.notification?.close();
  const session = (event.notification?.data as { session?: unknown } | undefined)?.session;
  event.waitUntil(open(typeof session === "string" && NAME.test(session) ? session : ""));
});

/** Show a session: in a page that is open, which has its key, else in a new one. */
async function open(session: string): Promise<void> {
  const hash = session ? `#/s/${encodeURIComponent(session)}` : "#/";
  for (const each of await worker.clients.matchAll({ type: "window", includeUncontrolled: true })) {
    if (new URL(each.url).pathname !== "/") continue;
    each.postMessage({ show: hash });
    await each.focus();
    return;
  }
  await worker.clients.openWindow(`/${hash}`);
}

function pushed(event: WorkerEvent): Pushed {
  let found: Record<string, unknown> = {};
  try {
    const read = event.data?.json();
    if (typeof read === "object" && read !== null) found = read as Record<string, unknown>;
  } catch {
    // A push must show something: browsers end subscriptions that do not.
  }
  const text = (name: string) => (typeof found[name] === "string" ? (found[name] as string).slice(0, 300) : "");
  return {
    kind: text("kind"), session: text("session"), session_id: text("session_id"),
    title: text("title") || "Holdfast", text: text("text"),
  };
}
