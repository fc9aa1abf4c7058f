// Calls over one WebSocket, each on a channel. When the connection is lost, every call is opened again by its
// owner's word on where to continue; how often that is tried falls while the server is away.

import { key } from "./api";

type Message = Record<string, unknown>;

/** A call that lasts: how it is opened, now or again, and what becomes of what it reports. */
export interface Call {
  /** The message that opens it, without its number. Asked again after each lost connection. */
  opening(): Message;
  event(event: Message, size: number): void;
  /** Its result, or the error that ended it. It is over. */
  ended(result: Message | null, error: { code: string; message: string } | null): void;
}

const FIRST_PAUSE = 250;
const LONGEST_PAUSE = 5_000;

export class Channels {
  private socket: WebSocket | null = null;
  private readonly calls = new Map<number, Call>();
  private number = 0;
  private pause = FIRST_PAUSE;
  private timer = 0;
  /** Told when the connection is there, and when it is lost. */
  onConnected: (connected: boolean) => void = () => {};

  /** Begin a call, and return its number. */
  open(call: Call): number {
    const number = ++this.number;
    this.calls.set(number, call);
    if (this.socket?.readyState === WebSocket.OPEN) this.say({ open: number, ...call.opening() });
    else this.connect();
    return number;
  }

  close(number: number): void {
    if (this.calls.delete(number)) this.say({ close: number });
  }

  type(channel: number, text: string): void {
    this.say({ channel, type: text });
  }

  resize(channel: number, rows: number, cols: number): void {
    this.say({ channel, resize: [rows, cols] });
  }

  /** Let so many more bytes come. */
  grant(channel: number, credit: number): void {
    if (this.calls.has(channel)) this.say({ channel, credit });
  }

  /** Try now, and not after the pause: the machine has woken up, or the page is seen again. */
  hurry(): void {
    if (this.timer) {
      clearTimeout(this.timer);
      this.timer = 0;
      this.pause = FIRST_PAUSE;
      this.connect();
    }
  }

  private say(message: Message): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  private connect(): void {
    if (this.socket !== null || this.timer || !key()) return;
    const url = `${location.origin.replace(/^http/, "ws")}/v1/channels`;
    const socket = new WebSocket(url, ["holdfast.v1", `bearer.${key()}`]);
    this.socket = socket;
    socket.onopen = () => {
      this.pause = FIRST_PAUSE;
      this.onConnected(true);
      for (const [number, call] of this.calls) this.say({ open: number, ...call.opening() });
    };
    socket.onmessage = ({ data }) => this.heard(JSON.parse(String(data)) as Message, String(data).length);
    socket.onclose = () => {
      this.socket = null;
      this.onConnected(false);
      if (!this.calls.size) return;
      this.timer = window.setTimeout(() => {
        this.timer = 0;
        this.connect();
      }, this.pause);
      this.pause = Math.min(this.pause * 2, LONGEST_PAUSE);
    };
  }

  private heard(message: Message, size: number): void {
    const channel = message["channel"];
    const call = typeof channel === "number" ? this.calls.get(channel) : undefined;
    if (call === undefined || typeof channel !== "number") return;
    if ("event" in message) {
      call.event(message, size);
      return;
    }
    this.calls.delete(channel);
    call.ended(
      (message["result"] as Message | undefined) ?? null,
      (message["error"] as { code: string; message: string } | undefined) ?? null,
    );
  }
}

/** The connection of this tab. */
export const channels = new Channels();
