// The suites in JavaScript without what needs a browser, a build of the client, or template builds.
import { existsSync } from 'node:fs'

const root = process.env.HOLDFAST_SUITE
const setup = 'tests/globalFetchFallback.setup.ts'
export default {
  root,
  test: {
    include: ['tests/**/*.test.ts'],
    exclude: ['**/node_modules/**', 'tests/runtimes/**', 'tests/template/**', 'tests/bundle/**', 'tests/volume/**', 'tests/connectionConfig*'],
    setupFiles: existsSync(`${root}/${setup}`) ? [setup] : [],
    environment: 'node',
    testTimeout: 120_000,
    hookTimeout: 120_000,
    maxWorkers: 2,
    reporters: ['default', 'junit'],
    outputFile: process.env.HOLDFAST_REPORT,
  },
}
