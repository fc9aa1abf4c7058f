// A Node.js server that counts requests, with a timer and a worker thread that checks sums.
const http = require("node:http"), fs = require("node:fs");
const { Worker, isMainThread, parentPort } = require("node:worker_threads");
if (!isMainThread) {
  parentPort.on("message", (numbers) => parentPort.postMessage(numbers.reduce((a, b) => a + b, 0)));
} else {
  let count = 0, rounds = 0, faults = 0;
  const worker = new Worker(__filename);
  const numbers = Array.from({ length: 100 }, (_, n) => n);
  worker.on("message", (sum) => { rounds += 1; faults += sum !== 4950 ? 1 : 0; });
  setInterval(() => worker.postMessage(numbers), 5);
  http.createServer((request, response) => {
    if (request.url === "/sums") return response.end(`${rounds} ${faults} sums of a worker thread\n`);
    count += 1;
    response.end(String(count));
  }).listen(0, "127.0.0.1", function () { fs.writeFileSync("port", String(this.address().port)); });
}
