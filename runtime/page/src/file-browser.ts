// The files of a session: folders to walk through, files to look at, fetch, and put there.

import { html, LitElement, nothing } from "lit";

import { download, explained, get, place, upload, type FileInfo } from "./api";
import { bytes, line } from "./texts";

const SHOWN = 256 << 10;

export class FileBrowser extends LitElement {
  static override properties = {
    session: {}, start: {}, path: { state: true }, files: { state: true }, viewed: { state: true }, said: { state: true },
  };
  declare session: string;
  declare start: string;
  declare path: string;
  declare files: readonly FileInfo[];
  declare viewed: { name: string; text: string } | null;
  declare said: string;

  constructor() {
    super();
    this.session = "";
    this.start = "/";
    this.path = "/";
    this.files = [];
    this.viewed = null;
    this.said = "";
  }

  protected override createRenderRoot(): HTMLElement {
    return this;
  }

  protected override firstUpdated(): void {
    void this.go(this.start);
  }

  private at(path: string): string {
    return `${place("sessions", this.session)}/files/content?path=${encodeURIComponent(path)}`;
  }

  private async go(path: string): Promise<void> {
    await this.work(async () => {
      this.files = await get<FileInfo[]>(`${place("sessions", this.session)}/files/list`, { path });
      this.path = path;
      this.viewed = null;
    });
  }

  private async view({ name, size }: FileInfo): Promise<void> {
    await this.work(async () => {
      const part = size > SHOWN ? `bytes=0-${SHOWN - 1}` : undefined;
      const blob = await download(this.at(join(this.path, name)), part);
      const data = new Uint8Array(await blob.arrayBuffer());
      const text = data.includes(0) ? `${data.length} bytes that are not text` : new TextDecoder().decode(data);
      this.viewed = { name, text };
    });
  }

  private async fetch(name: string): Promise<void> {
    await this.work(async () => {
      const url = URL.createObjectURL(await download(this.at(join(this.path, name))));
      const link = document.createElement("a");
      link.href = url;
      link.download = name;
      link.click();
      URL.revokeObjectURL(url);
    });
  }

  private async put(files: FileList | null | undefined): Promise<void> {
    for (const each of files ?? []) {
      await this.work(async () => {
        await upload(this.at(join(this.path, each.name)), each);
        this.said = `${line(each.name)} was written`;
      });
    }
    if (files?.length) {
      const { said } = this;
      await this.go(this.path);
      this.said ||= said;
    }
  }

  private async work(work: () => Promise<void>): Promise<void> {
    this.said = "";
    try {
      await work();
    } catch (error) {
      this.said = explained(error);
    }
  }

  protected override render() {
    return html`
      <div class="files" @dragover=${(event: DragEvent) => event.preventDefault()} @drop=${this.dropped}>
        <div class="bar">
          <button ?disabled=${this.path === "/"} @click=${() => void this.go(parent(this.path))}>Up</button>
          <code>${line(this.path, 300)}</code>
          <label class="button">Upload<input type="file" multiple hidden
            @change=${(event: Event) => void this.put((event.target as HTMLInputElement).files)}></label>
        </div>
        ${this.said ? html`<p class="said" role="status">${this.said}</p>` : nothing}
        <table>
          <tbody>
            ${this.files.map((each) => html`<tr>
              <td><button class="link" @click=${() => void this.opened(each)}>${line(each.name)}${each.kind === "folder" ? "/" : ""}</button></td>
              <td>${each.kind === "file" ? bytes(each.size) : line(each.kind, 20)}</td>
              <td>${each.kind === "file" ? html`<button @click=${() => void this.fetch(each.name)}>Download</button>` : nothing}</td>
            </tr>`)}
          </tbody>
        </table>
        ${this.viewed ? html`<h3>${line(this.viewed.name)}</h3><pre>${this.viewed.text}</pre>` : nothing}
      </div>`;
  }

  private readonly dropped = (event: DragEvent): void => {
    event.preventDefault();
    void this.put(event.dataTransfer?.files);
  };

  private opened(file: FileInfo): Promise<void> {
    return file.kind === "file" ? this.view(file) : this.go(join(this.path, file.name));
  }
}
customElements.define("file-browser", FileBrowser);

function join(folder: string, name: string): string {
  return folder.endsWith("/") ? folder + name : `${folder}/${name}`;
}

function parent(path: string): string {
  return path.slice(0, path.lastIndexOf("/")) || "/";
}
