// An HTTP server that counts in SQLite, and a client of it in a worker thread of the same process.
import {Database} from "bun:sqlite";
import {renameSync, writeFileSync} from "fs";

if (Bun.isMainThread) {
    const database = new Database("counts.sqlite");
    database.exec("PRAGMA journal_mode = WAL; CREATE TABLE IF NOT EXISTS counts (n INTEGER)");
    const add = database.query("INSERT INTO counts VALUES (?)");
    const sum = database.query("SELECT count(*) AS n FROM counts");
    const server = Bun.serve({
        hostname: "127.0.0.1",
        port: 0,
        fetch() {
            add.run(1);
            return new Response(String(sum.get().n));
        },
    });
    new Worker(process.argv[1], {env: {...process.env, PORT: String(server.port)}});
} else {
    let rounds = 0, faults = 0, last = 0;
    while (true) {
        const said = Number(await (await fetch(`http://127.0.0.1:${process.env.PORT}/`)).text());
        rounds += 1;
        if (said <= last) faults += 1;
        last = said;
        writeFileSync("new", `${rounds} ${faults} of requests from a worker, counted in SQLite\n`);
        renameSync("new", "state");
        await Bun.sleep(5);
    }
}
