// Ten calls by a client whose types `openapi-typescript` has generated as api.d.ts; prints `ok: N`.
import assert from 'node:assert/strict'
import createClient from 'openapi-fetch'
import type { paths } from './api.js'

const { ADDRESS, TOKEN, SESSION } = process.env as Record<string, string>
const api = createClient<paths, 'application/json'>({ baseUrl: ADDRESS, headers: { authorization: `Bearer ${TOKEN}` } })
const path = { session: SESSION }
let checks = 0

function check(fact: boolean): void {
  assert(fact)
  checks += 1
}

const health = await api.GET('/health')
check(health.data?.status === 'ok')
const found = await api.GET('/v1/sessions/{session}', { params: { path } })
check(found.data?.id === SESSION)
const all = await api.GET('/v1/sessions')
check(all.data?.some((each) => each.id === SESSION) === true)
const done = await api.POST('/v1/sessions/{session}/exec', { params: { path }, body: { command: 'echo $((6 * 7)); (exit 3)' } })
check(done.data?.exit_code === 3 && done.data.output?.trim() === '42')
const ran = await api.POST('/v1/sessions/{session}/run', { params: { path }, body: { argv: ['printf', '%s', 'é'] } })
check(ran.data?.exit_code === 0)
await api.POST('/v1/sessions/{session}/files/folders', { params: { path }, body: { path: '/tmp/c/d', parents: true } })
const stat = await api.GET('/v1/sessions/{session}/files/stat', { params: { path, query: { path: '/tmp/c/d' } } })
check(stat.data?.name === 'd')
const listed = await api.GET('/v1/sessions/{session}/files/list', { params: { path, query: { path: '/tmp/c' } } })
check(listed.data?.map((each) => each.name).join() === 'd')
const kernels = await api.GET('/v1/sessions/{session}/kernels', { params: { path } })
check(kernels.data?.[0]?.name === 'main')
const pulse = await api.GET('/v1/sessions/{session}/pulse', { params: { path } })
check(pulse.data !== undefined)
const missing = await api.POST('/v1/sessions/{session}/exec', { params: { path: { session: 'none' } }, body: { command: 'true' } })
check(missing.error?.error.code === 'session_not_found')
console.log(`ok: ${checks}`)
