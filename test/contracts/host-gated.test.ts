import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { gatedHost, parseGate, pathClassOf, readTrace } from '../support/gated-host.ts';
import { memoryHost } from '../support/memory-host.ts';

test.each([
  ['/out/rows_0-2000/data_7.ckpt', 'sample'],
  ['/out/rows_0-2000/data_7.ckpt.tidemark-L3.2.tmp', 'sample-temp'],
  ['/out/rows_0-2000', 'sample'],
  ['/out/.tidemark/journal/shard-0.3.log', 'ledger'],
  ['/out/.tidemark/journal', 'ledger'],
  ['/out/.tidemark/ledger/x', 'ledger'],
  ['/out/.tidemark/leases/run.1', 'lease'],
  ['/out/.tidemark/leases/run.1.ab12.tmp', 'lease'],
  ['/out/.tidemark/run.json', 'run-record'],
  ['/out/.tidemark/run.json.00ff.tmp', 'run-record'],
  ['/out/.tidemark/quarantine/rows_0-2000/data_7.ckpt.1.torn', 'other'],
  ['/dev/shm/vllm/hs_17.safetensors', 'capture'],
  ['/dev/shm/staging/x', 'capture'],
  ['/out/.tidemark', 'other'],
  ['/out', 'other'],
] as const)('%s is of class %s', (path, expected) => {
  expect(pathClassOf(path)).toBe(expected);
});

test('gates are read strictly', () => {
  expect(parseGate('sample:link:3')).toEqual({ class: 'sample', op: 'link', nth: 3, when: 'before' });
  expect(parseGate('sample-temp:write:1:mid')).toEqual({ class: 'sample-temp', op: 'write', nth: 1, when: 'mid' });
  for (const wrong of [
    '',
    'sample',
    'sample:link',
    'sample:link:0',
    'sample:link:x',
    'sample:nod:1',
    'no:link:1',
    'sample:link:1:now',
    'sample:link:1:mid:x',
  ]) {
    expect(() => parseGate(wrong)).toThrow('TIDEMARK_TEST_GATE');
  }
});

test('without the environment it is the host itself', () => {
  const host = memoryHost();
  expect(gatedHost(host, {})).toBe(host);
});

describe('a real process', () => {
  let folder = '';
  let at = 0;

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'tidemark-gated-'));
    const from = (path: string) => JSON.stringify(fileURLToPath(new URL(path, import.meta.url)));
    writeFileSync(
      join(folder, 'victim.mts'),
      `import { createLocalHost } from ${from('../../src/host/local.ts')};
       import { gatedHost } from ${from('../support/gated-host.ts')};
       const { files } = gatedHost(createLocalHost(), process.env);
       for (let index = 0; index < 3; index++) {
         const final = process.argv[2] + '/rows_0-2000/data_' + index + '.ckpt';
         const file = await files.create(final + '.tmp', 0o644);
         await file.write(Buffer.alloc(1000, 120));
         await file.sync();
         await file.close();
         await files.link(final + '.tmp', final);
         await files.unlink(final + '.tmp');
         await files.syncDirectory(process.argv[2] + '/rows_0-2000');
       }
       console.log('finished');`,
    );
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  function run(gate: string | undefined) {
    const run = join(folder, String(at++));
    const rows = join(run, 'rows_0-2000');
    mkdirSync(rows, { recursive: true });
    const trace = join(run, 'trace');
    const ended = spawnSync(process.execPath, ['--import', import.meta.resolve('tsx'), join(folder, 'victim.mts'), run], {
      env: { ...process.env, TIDEMARK_TEST_TRACE: trace, ...(gate === undefined ? {} : { TIDEMARK_TEST_GATE: gate }) },
      encoding: 'utf8',
    });
    return { ended, rows, names: readdirSync(rows).sort(), trace, last: readTrace(trace) };
  }

  test('runs to its end without a gate, and with one that is never reached', () => {
    for (const gate of [undefined, 'sample:link:99']) {
      const { ended, names, last, trace } = run(gate);
      expect(ended.stdout, ended.stderr).toBe('finished\n');
      expect(names).toEqual(['data_0.ckpt', 'data_1.ckpt', 'data_2.ckpt']);
      expect(last).toMatchObject({ count: 21, nth: 3, class: 'sample', op: 'syncDirectory', phase: 'after', name: 'rows_0-2000' });
      expect(statSync(trace).size).toBe(512);
    }
  });

  test.each([
    [
      'sample:link:2:before',
      ['data_0.ckpt', 'data_1.ckpt.tmp'],
      { count: 12, nth: 2, class: 'sample', op: 'link', phase: 'before', name: 'data_1.ckpt' },
    ],
    ['sample:link:2:after', ['data_0.ckpt', 'data_1.ckpt', 'data_1.ckpt.tmp'], { count: 12, op: 'link', phase: 'after' }],
    ['sample-temp:write:1', ['data_0.ckpt.tmp'], { count: 2, class: 'sample-temp', op: 'write', phase: 'before' }],
    ['sample-temp:create:1:before', [], { count: 1, op: 'create' }],
  ] as const)('dies at %s, by SIGKILL, and the trace says where', (gate, expected, record) => {
    const { ended, names, last } = run(gate);
    expect(ended.signal, ended.stderr).toBe('SIGKILL');
    expect(ended.stdout).toBe('');
    expect(names).toEqual(expected);
    expect(last).toMatchObject(record);
  });

  test('dies in the middle of a write', () => {
    const { ended, rows, names } = run('sample-temp:write:3:mid');
    expect(ended.signal, ended.stderr).toBe('SIGKILL');
    expect(names).toEqual(['data_0.ckpt', 'data_1.ckpt', 'data_2.ckpt.tmp']);
    expect(readFileSync(join(rows, 'data_2.ckpt.tmp')).length).toBe(500);
    expect(existsSync(join(rows, 'data_2.ckpt'))).toBe(false);
  });
});
