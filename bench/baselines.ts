/** What one would do by hand, each over a folder that is its first argument; our name for it goes into the figures. */
export interface Baseline {
  readonly name: string;
  readonly file: string;
  readonly argv: readonly string[];
}

const DEBIAN_PYTHON = '/usr/bin/python3';

/** The bare Node loop: open each file, read its last 4 KiB. What any check of structure must at least do. */
export const BARE: Baseline = {
  name: 'node open+fstat+read 4 KiB',
  file: process.execPath,
  argv: [
    '-e',
    `
const fs = require('node:fs'), path = require('node:path');
const buffer = Buffer.alloc(4096);
for (const group of fs.readdirSync(process.argv[1])) for (const name of fs.readdirSync(path.join(process.argv[1], group))) {
  const fd = fs.openSync(path.join(process.argv[1], group, name));
  const size = fs.fstatSync(fd).size;
  fs.readSync(fd, buffer, 0, Math.min(4096, size), Math.max(0, size - 4096));
  fs.closeSync(fd);
}`,
  ],
};

export const COUNT: Baseline = {
  name: 'bash ls | wc -l of each folder',
  file: 'bash',
  argv: ['-c', 'for d in "$0"/*/; do ls "$d" | wc -l; done'],
};

export const FIND: Baseline = {
  name: 'find -printf size and time',
  file: 'bash',
  argv: ['-c', `find "$0" -type f -printf '%s %T@ %p\\n' > /dev/null`],
};

const python = (name: string, act: string, imports = 'zipfile'): Baseline => ({
  name,
  file: DEBIAN_PYTHON,
  argv: ['-c', `import sys,pathlib,${imports}\nfor p in pathlib.Path(sys.argv[1]).rglob("*.pt"): ${act}`],
});

export const NAMES = python('python zipfile names', 'zipfile.ZipFile(p).namelist()');
export const TESTZIP = python('python zipfile testzip', 'zipfile.ZipFile(p).testzip()');
export const LOAD = python('torch.load of each', 'torch.load(p)', 'torch');
/** Whether there is a torch; exits with 1 where there is none. */
export const HAS_TORCH: Baseline = { name: 'import torch', file: DEBIAN_PYTHON, argv: ['-c', 'import torch'] };

export const CAT: Baseline = {
  name: 'cat of all files > /dev/null',
  file: 'bash',
  argv: ['-c', 'find "$0" -name "*.pt" -print0 | xargs -0 cat > /dev/null'],
};
