import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import {
  decodeOctal,
  isBelow,
  mountUnder,
  opensForWriting,
  parseBootId,
  parseBootTime,
  parseLocks,
  parseMemoryTotal,
  parseMountInfo,
  parseNamespace,
  parseNumber,
  parseProcessStat,
} from './proc.ts';

const mountinfo = String.raw`22 28 0:20 / /sys rw,nosuid,nodev,noexec,relatime shared:7 - sysfs sysfs rw
28 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw,errors=remount-ro
91 28 8:17 / /data rw,noatime shared:30 master:2 propagate_from:1 - xfs /dev/sdb1 rw,attr2,prjquota
92 28 8:33 / /data\040two/a\134b rw - ext4 /dev/disk/by-label/my\040disk rw
93 91 0:55 / /data/hidden rw,relatime - fuse.sshfs user@host:/a\040-\040b rw,user_id=0
94 91 0:56 / /data/hidden rw,relatime - tmpfs over rw,size=1024k
95 28 0:57 / /plain rw - tmpfs none
not a mount line
96 28 0:58 /
`;

describe('mountinfo', () => {
  const mounts = parseMountInfo(mountinfo);

  test('takes any number of optional fields and leaves out lines of another form', () => {
    expect(mounts.map((mount) => mount.mountPoint)).toEqual([
      '/sys',
      '/',
      '/data',
      '/data two/a\\b',
      '/data/hidden',
      '/data/hidden',
      '/plain',
    ]);
    expect(mounts[2]).toEqual({
      device: '2065',
      mountPoint: '/data',
      filesystem: 'xfs',
      source: '/dev/sdb1',
      options: 'rw,noatime,rw,attr2,prjquota',
    });
  });

  test('decodes octal escapes once', () => {
    expect(decodeOctal(String.raw`a\040b\011c\012d\134e\043`)).toBe('a b\tc\nd\\e#');
    expect(decodeOctal(String.raw`\134040`)).toBe(String.raw`\040`);
    expect(decodeOctal('ünï\\040')).toBe('ünï ');
    expect(mounts[3]?.source).toBe('/dev/disk/by-label/my disk');
    expect(mounts[4]?.source).toBe('user@host:/a - b');
  });

  test.each([
    ['/', '/'],
    ['/database', '/'],
    ['/data', '/data'],
    ['/data/x', '/data'],
    ['/data two', '/'],
    ['/data two/a\\b/c', '/data two/a\\b'],
  ])('%s lies on %s', (path, mountPoint) => {
    expect(mountUnder(mounts, path)?.mountPoint).toBe(mountPoint);
  });

  test('of two mounts at one point the later hides the earlier', () => {
    expect(mountUnder(mounts, '/data/hidden/f')?.filesystem).toBe('tmpfs');
  });

  test('no mount at all', () => {
    expect(mountUnder([], '/')).toBeNull();
  });
});

describe('process stat', () => {
  const fields = 'S 1 7 7 0 -1 4194560 900 0 0 0 3 1 0 0 20 0 1 0 123456789 21700608 1200 18446744073709551615';

  test.each([
    ['sleep', 'sleep'],
    ['a) Z (b', 'a) Z (b'],
    ['with space', 'with space'],
    [')', ')'],
    ['', ''],
    ['line\nbreak', 'line\nbreak'],
  ])('the command %j does not move the fields', (command, expected) => {
    expect(parseProcessStat(`42 (${command}) ${fields}\n`)).toEqual({ command: expected, state: 'S', parent: 1, startTicks: '123456789' });
  });

  test.each(['', '42 (x', '42 (x) S 1 2', '42 )x( S', '42 (x) 1 S 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20'])(
    '%j is no process stat',
    (text) => {
      expect(parseProcessStat(text)).toBeNull();
    },
  );
});

test('meminfo, stat, boot id, numbers, namespaces', () => {
  expect(parseMemoryTotal('MemTotal:       24652408 kB\nMemFree:  1 kB\n')).toBe(24652408 * 1024);
  expect(parseMemoryTotal('MemFree: 1 kB\n')).toBeNull();
  expect(parseBootTime('cpu  1 2 3\nbtime 1700000000\nprocesses 3\n')).toBe(1700000000);
  expect(parseBootTime('cpu  1 2 3\n')).toBeNull();
  expect(parseBootId('6d0c1f5e-7a2b-4c3d-8e9f-0a1b2c3d4e5f\n')).toBe('6d0c1f5e-7a2b-4c3d-8e9f-0a1b2c3d4e5f');
  expect(parseBootId('6d0c1f5e\n')).toBeNull();
  expect(parseNumber('3000\n')).toBe(3000);
  expect(parseNumber('')).toBeNull();
  expect(parseNamespace('pid:[4026531836]')).toBe('4026531836');
  expect(parseNamespace('')).toBeNull();
});

describe('locks', () => {
  const text = `1: POSIX  ADVISORY  WRITE 1234 08:11:12345 0 EOF
1: -> POSIX  ADVISORY  WRITE 99 08:11:12345 0 EOF
2: FLOCK  ADVISORY  READ 1235 103:1ff:9007199254740993 0 EOF
3: OFDLCK ADVISORY  WRITE -1 00:2a:7 0 9
4: LEASE  ACTIVE    WRITE 8 08:11:1 0 EOF
5: NEWKIND ACTIVE WRITE 8 08:11:1 0 EOF
6: POSIX ADVISORY WRITE
`;

  test('are told with the numbers that stat gives, without those who wait and those of an unknown form', () => {
    expect(parseLocks(text)).toEqual([
      { kind: 'posix', exclusive: true, pid: 1234, device: '2065', inode: '12345' },
      { kind: 'flock', exclusive: false, pid: 1235, device: String(0x103n * 256n + 0xffn + (0x100n << 12n)), inode: '9007199254740993' },
      { kind: 'ofd', exclusive: true, pid: null, device: '42', inode: '7' },
      { kind: 'lease', exclusive: true, pid: 8, device: '2065', inode: '1' },
    ]);
  });

  test('stand in fdinfo, too', () => {
    expect(parseLocks('pos:\t0\nflags:\t02\nlock:\t1: FLOCK  ADVISORY  WRITE 359 00:13:11691 0 EOF\n')).toMatchObject([
      { kind: 'flock', pid: 359, device: '19', inode: '11691' },
    ]);
  });
});

test.each([
  ['0100000', false],
  ['0100001', true],
  ['0100002', true],
  ['02100002', true],
  ['0', false],
])('flags %s open for writing: %s', (flags, expected) => {
  expect(opensForWriting(`pos:\t0\nflags:\t${flags}\nmnt_id:\t28\n`)).toBe(expected);
});

test('fdinfo without flags', () => {
  expect(opensForWriting('pos:\t0\n')).toBeNull();
});

test.each([
  ['/a', '/a', true],
  ['/a/b', '/a', true],
  ['/ab', '/a', false],
  ['/', '/a', false],
  ['/a', '/', true],
  ['socket:[1]', '/', false],
])('%s below %s: %s', (path, folder, expected) => {
  expect(isBelow(path, folder)).toBe(expected);
});

test.runIf(process.platform === 'linux')('this machine’s own files are understood', () => {
  expect(mountUnder(parseMountInfo(readFileSync('/proc/self/mountinfo', 'utf8')), '/')).not.toBeNull();
  expect(parseProcessStat(readFileSync('/proc/self/stat', 'utf8'))?.state).toMatch(/[RS]/);
  expect(parseMemoryTotal(readFileSync('/proc/meminfo', 'utf8'))).toBeGreaterThan(0);
  expect(parseBootTime(readFileSync('/proc/stat', 'utf8'))).toBeGreaterThan(0);
});
