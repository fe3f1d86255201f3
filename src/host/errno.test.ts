import { writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { describe, expect, test } from 'vitest';
import { TidemarkError } from '../core/errors.ts';
import { type ErrnoName, errnoError, errnoOf, isErrno, shellQuoted, storageError, syncError } from './errno.ts';

/** As libuv reports a number that it has no name for. */
function unnamed(number: number): NodeJS.ErrnoException {
  const error: NodeJS.ErrnoException = new Error(`Unknown system error -${number}: Unknown system error -${number}, open '/x'`);
  error.errno = -number;
  error.code = `Unknown system error -${number}`;
  return error;
}

describe.runIf(process.platform === 'linux')('by number', () => {
  test.each([
    [122, 'EDQUOT', 'storage-full', 'later'],
    [116, 'ESTALE', 'storage-failed', 'never'],
    [117, 'EUCLEAN', 'storage-failed', 'never'],
    [74, 'EBADMSG', 'storage-failed', 'never'],
    [67, 'ENOLINK', 'storage-failed', 'never'],
    [28, 'ENOSPC', 'storage-full', 'later'],
    [5, 'EIO', 'storage-failed', 'never'],
    [30, 'EROFS', 'storage-failed', 'never'],
    [13, 'EACCES', 'storage-denied', 'never'],
    [1, 'EPERM', 'storage-denied', 'never'],
    [40, 'ELOOP', 'storage-denied', 'never'],
    [24, 'EMFILE', 'storage-failed', 'later'],
    [23, 'ENFILE', 'storage-failed', 'later'],
    [18, 'EXDEV', 'storage-failed', 'never'],
    [27, 'EFBIG', 'storage-failed', 'never'],
    [95, 'ENOTSUP', 'storage-failed', 'never'],
  ] as const)('%i is %s: %s, %s', (number, name, code, retry) => {
    expect(errnoOf(unnamed(number))).toBe(name);
    const error = storageError(unnamed(number), 'open', '/data/x');
    expect(error).toMatchObject({ code, retry, where: '/data/x' });
    expect(error.message).toContain(`could not open /data/x: `);
    expect(error.message).toContain(`(${name})`);
    expect(isErrno(errnoError(name satisfies ErrnoName), name)).toBe(true);
  });
});

test('hints are commands that can be pasted', () => {
  expect(storageError(errnoError('ENOSPC'), 'create', "/data/PATH DIR/it's").hint).toBe("df -h '/data/PATH DIR'; df -i '/data/PATH DIR'");
  expect(storageError(errnoError('EEXIST'), 'create', "/data/it's").hint).toBe(`ls -ld '/data/it'\\''s'`);
  expect(storageError(errnoError('ENOENT'), 'create', 'x').hint).toBe('ls -ld .');
  expect(storageError(errnoError('ENOENT'), 'create', '/x').hint).toBe('ls -ld /');
  expect(shellQuoted('-rf')).toBe("'-rf'");
  expect(shellQuoted('a\nb')).toBe("'a\nb'");
  expect(shellQuoted('')).toBe("''");
});

test('a failed sync says that it is final', () => {
  const error = syncError(errnoError('EIO'), '/data/x');
  expect(error).toMatchObject({ code: 'storage-failed', retry: 'never' });
  expect(error.message).toMatch(/could not sync \/data\/x: .*\(EIO\); this is final for the file/);
  expect(syncError(errnoError('ENOSPC'), '/data/x')).toMatchObject({ code: 'storage-full', retry: 'later' });
});

test('a TidemarkError stays what it is, anything else becomes one', () => {
  const original = new TidemarkError('interrupted', 'stop');
  expect(storageError(original, 'open', '/x')).toBe(original);
  expect(storageError('odd', 'open', '/x')).toMatchObject({ code: 'storage-failed', message: 'could not open /x: odd' });
  expect(errnoOf('odd')).toBeNull();
});

test('a NUL in a path is refused, not a crash', () => {
  let caught: unknown;
  try {
    writeFileSync(`${tmpdir()}/a\0b`, '');
  } catch (error) {
    caught = error;
  }
  expect(storageError(caught, 'create', 'a\0b').code).toBe('storage-denied');
});
