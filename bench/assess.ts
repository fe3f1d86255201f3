import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CLI, ROOT } from '../test/support/processes.ts';
import { compare, type Figure } from './measure.ts';

const RUNS = 3;

/** The bare Node loop: open each file, read its last 4 KiB. What any check of structure must at least do. */
const BARE = `
const fs = require('node:fs'), path = require('node:path');
const buffer = Buffer.alloc(4096);
for (const group of fs.readdirSync(process.argv[1])) for (const name of fs.readdirSync(path.join(process.argv[1], group))) {
  const fd = fs.openSync(path.join(process.argv[1], group, name));
  const size = fs.fstatSync(fd).size;
  fs.readSync(fd, buffer, 0, Math.min(4096, size), Math.max(0, size - 4096));
  fs.closeSync(fd);
}`;
const NAMES = 'import sys,pathlib,zipfile\nfor p in pathlib.Path(sys.argv[1]).rglob("*.pt"): zipfile.ZipFile(p).namelist()';
const TESTZIP = 'import sys,pathlib,zipfile\nfor p in pathlib.Path(sys.argv[1]).rglob("*.pt"): zipfile.ZipFile(p).testzip()';
const LOAD = 'import sys,pathlib,torch\nfor p in pathlib.Path(sys.argv[1]).rglob("*.pt"): torch.load(p)';

/** `npm run bench -- assess`: the storage-crash scene, 18,421 small files, warm. */
export async function benchAssess(): Promise<readonly Figure[]> {
  const place = mkdtempSync(join(tmpdir(), 'tidemark-bench-'));
  try {
    const scene = join(place, 'scene');
    execFileSync('python3', [join(ROOT, 'test/support/scenes/make_scene.py'), '--scene', 'storage-crash', '--format', 'pt', scene], {
      stdio: 'ignore',
    });
    const tree = join(scene, 'hidden_states');
    const ours = (level: string) => () =>
      run(process.execPath, [CLI, 'assess', tree, '--dataset', join(scene, 'dataset.jsonl'), '--level', level, '--json']);
    const bare = () => run(process.execPath, ['-e', BARE, tree]);
    const python = (script: string) => () => run('/usr/bin/python3', ['-c', script, tree]);
    bare();
    return [
      await compare('assess.identity.storage-crash', 'node open+fstat+read 4 KiB', RUNS, ours('identity'), bare),
      await compare('assess.identity.storage-crash', 'python zipfile names', RUNS, ours('identity'), python(NAMES)),
      await compare('assess.identity.storage-crash', 'torch.load of each', 1, ours('identity'), python(LOAD)),
      await compare('assess.checksum.storage-crash', 'python zipfile testzip', RUNS, ours('checksum'), python(TESTZIP)),
    ];
  } finally {
    rmSync(place, { recursive: true });
  }
}

/** A survey that finds damage exits with 3 or 4; only a failure to run is one. */
function run(file: string, argv: readonly string[]): void {
  try {
    execFileSync(file, [...argv], { stdio: 'ignore' });
  } catch (error) {
    const status = typeof error === 'object' && error !== null && 'status' in error ? error.status : null;
    if (status !== 3 && status !== 4) throw error;
  }
}
