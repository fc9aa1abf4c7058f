// What VS Code does with a remote Jupyter server, by the library that it uses for it (@jupyterlab/services):
// specs and kernels are listed, a session for a notebook is started, a cell is run; then the session is shut down.
import services from "@jupyterlab/services";

const [url, token, spec, code] = process.argv.slice(2);
const { KernelAPI, KernelManager, KernelSpecManager, ServerConnection, SessionManager } = services;
const serverSettings = ServerConnection.makeSettings({ baseUrl: url, wsUrl: url.replace("http", "ws"), token, appendToken: true });
const kernelManager = new KernelManager({ serverSettings });
const specsManager = new KernelSpecManager({ serverSettings });
const sessionManager = new SessionManager({ serverSettings, kernelManager });
await Promise.all([sessionManager.ready, specsManager.ready]);
await specsManager.refreshSpecs();
const running = await KernelAPI.listRunning(serverSettings);
const session = await sessionManager.startNew({ path: "work-jvsc-1.ipynb", name: "work-1", type: "notebook", kernel: { name: spec } });
await session.kernel.info;
const future = session.kernel.requestExecute({ code });
let text = "";
future.onIOPub = ({ header, content }) => {
  if (header.msg_type === "stream") text += content.text;
};
const reply = await future.done;
const known = [...sessionManager.running()].length;
await session.shutdown();
await sessionManager.refreshRunning();
const left = [...sessionManager.running()].length;
console.log(JSON.stringify({
  specs: Object.keys(specsManager.specs.kernelspecs), kernels: running.map((each) => each.name), status: reply.content.status, text, known, left,
}));
process.exit(0);
