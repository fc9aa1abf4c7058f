// What the JavaScript clients of E2B do with a sandbox: made, used, paused, copied, ended.
import assert from 'node:assert/strict'
import http from 'node:http'
import { Sandbox as Plain } from 'e2b'
import { Sandbox } from '@e2b/code-interpreter'

let checks = 0
function check(found, why) {
  assert.ok(found, why)
  checks += 1
}
async function refused(work, why) {
  await assert.rejects(work, (error) => error.message.includes(why) || assert.fail(error.message), why)
  checks += 1
}

const mine = `basics ${Date.now()}`
const made = []
try {
  const one = await Plain.create({ timeoutMs: 600_000, metadata: { of: mine }, envs: { COLOUR: 'green' } })
  made.push(one)
  check(await one.isRunning(), 'it runs')
  const info = await one.getInfo()
  check(info.sandboxId === one.sandboxId && info.metadata.of === mine, 'its info')
  check(info.endAt - Date.now() > 500_000, 'its end')

  const said = await one.commands.run('echo "$COLOUR"; echo odd >&2; exit 0')
  check(said.stdout === 'green\n' && said.stderr === 'odd\n', 'a command')
  await assert.rejects(one.commands.run('exit 3'), (error) => error.exitCode === 3)
  checks += 1
  let seen = ''
  await one.commands.run('for i in 1 2 3; do echo $i; sleep 0.1; done', { onStdout: (text) => { seen += text } })
  check(seen === '1\n2\n3\n', 'output as it comes')

  await one.files.write('/tmp/näme with spaces', 'héllo\n')
  check((await one.files.read('/tmp/näme with spaces')) === 'héllo\n', 'a file')
  const bytes = Uint8Array.from({ length: 300_000 }, (_, i) => (i * 7) % 256)
  await one.files.write('/tmp/bytes', bytes.buffer)
  check(Buffer.from(await one.files.read('/tmp/bytes', { format: 'bytes' })).equals(Buffer.from(bytes)), 'bytes')
  check((await one.files.list('/tmp')).some((each) => each.name === 'bytes'), 'a folder')
  check((await one.files.exists('/tmp/bytes')) && !(await one.files.exists('/tmp/none')), 'exists')
  await one.files.remove('/tmp/bytes')
  check(!(await one.files.exists('/tmp/bytes')), 'removed')

  const listed = Plain.list({ query: { metadata: { of: mine } } })
  check((await listed.nextItems()).map((each) => each.sandboxId).join() === one.sandboxId, 'the list')

  await one.pause()
  check(!(await one.isRunning()), 'paused')
  const same = await Plain.connect(one.sandboxId, { timeoutMs: 600_000 })
  check((await same.files.read('/tmp/näme with spaces')) === 'héllo\n', 'resumed')

  await one.commands.run('python3 -m http.server 3000 --directory /tmp', { background: true })
  await one.commands.run('until curl -sf localhost:3000 >/dev/null; do sleep 0.1; done')
  const host = one.getHost(3000) // not every system resolves names below localhost
  const status = (headers) => new Promise((resolve, reject) => http
    .get({ host: '127.0.0.1', port: Number(host.split(':')[1]), headers: { Host: host, ...headers } }, resolve)
    .on('error', reject)).then((answer) => { answer.resume(); return answer.statusCode })
  check(await status({}) === 403, 'its ports need its token')
  check(await status({ 'e2b-traffic-access-token': one.trafficAccessToken }) === 200, 'a port with its token')

  const taken = await one.createSnapshot()
  const copy = await Plain.create(taken.snapshotId, { timeoutMs: 600_000 })
  made.push(copy)
  check((await copy.files.read('/tmp/näme with spaces')) === 'héllo\n', 'from a snapshot')
  check(await Plain.deleteSnapshot(taken.snapshotId), 'the snapshot is deleted')

  const two = await Sandbox.create({ timeoutMs: 600_000 })
  made.push(two)
  const ran = await two.runCode('x = 20\nprint("héllo")\nx + 1')
  check(ran.text === '21' && ran.logs.stdout.join('') === 'héllo\n', 'a cell')
  check((await two.runCode('x')).text === '20', 'its state')
  check((await two.runCode('1/0')).error.name === 'ZeroDivisionError', 'its error')

  await refused(() => Plain.create('no-such-template'), 'cannot find the template')
  check(await two.kill(), 'killed')
  await refused(() => two.getInfo(), 'not found')
} finally {
  for (const each of made) await each.kill()
}
console.log(`ok: ${checks}`)
