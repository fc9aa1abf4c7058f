// The suites in JavaScript without what needs a browser, a build of the client or template builds, and without the
// files that put a server of their own in the place of E2B's.
import { existsSync, readdirSync, readFileSync } from 'node:fs'

const root = process.env.HOLDFAST_SUITE
const setup = 'tests/globalFetchFallback.setup.ts'
const files = readdirSync(`${root}/tests`, { recursive: true }).filter((name) => name.endsWith('.test.ts'))
const mocking = files.filter((name) => readFileSync(`${root}/tests/${name}`, 'utf8').includes("'msw/node'"))
export default {
  root,
  test: {
    include: ['tests/**/*.test.ts'],
    exclude: [
      ...['**/node_modules/**', 'tests/runtimes/**', 'tests/template/**', 'tests/bundle/**', 'tests/connectionConfig*'],
      ...mocking.map((name) => `tests/${name}`),
    ],
    setupFiles: existsSync(`${root}/${setup}`) ? [setup] : [],
    environment: 'node',
    testTimeout: 120_000,
    hookTimeout: 120_000,
    maxWorkers: 2,
    reporters: ['default', 'junit'],
    outputFile: process.env.HOLDFAST_REPORT,
  },
}
