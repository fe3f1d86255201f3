import { readFile, readlink } from 'node:fs/promises';
import { arch, hostname, platform, release } from 'node:os';
import { dirname, resolve } from 'node:path';
import { messageOf } from '../core/errors.ts';
import { isErrno } from './errno.ts';
import { parseFstab, plannedUnder } from './fstab.ts';
import type { Fact, FileReader, HostFacts, Machine, MountFacts, ProcessIdentity } from './host.ts';
import { blockedBelow } from './local-blocked.ts';
import { listLocks } from './local-locks.ts';
import { writersBelow } from './local-writers.ts';
import {
  firstPidNamespace,
  mountUnder,
  parseBootId,
  parseBootTime,
  parseMemoryTotal,
  parseMountInfo,
  parseNamespace,
  parseNumber,
  parseProcessStat,
} from './proc.ts';

export interface LocalMachineOptions {
  readonly files: Pick<FileReader, 'realPath'>;
  /** Where the kernel's files are; another folder in tests. Default `/proc`. */
  readonly proc?: string;
  /** Default `/etc/fstab`. */
  readonly fstab?: string;
  /** Default: the system's. */
  readonly hostname?: string;
}

/** Facts from /proc. Where there is none (not Linux), every fact is unknown and says so. */
export function createLocalMachine(options: LocalMachineOptions): Machine {
  const proc = options.proc ?? '/proc';
  const ownHostname = options.hostname ?? hostname();

  async function fact<T>(name: string, parse: (text: string) => T | null): Promise<Fact<T>> {
    const source = `${proc}/${name}`;
    try {
      const value = parse(await readFile(source, 'utf8'));
      return value === null ? { known: false, why: `${source} has an unexpected form` } : { known: true, value, source };
    } catch (error) {
      return { known: false, why: `cannot read ${source}: ${messageOf(error)}` };
    }
  }

  const bootId = () => fact('sys/kernel/random/boot_id', parseBootId);

  async function dirty(): Promise<HostFacts['dirty']> {
    const names = ['dirty_expire_centisecs', 'dirty_writeback_centisecs', 'dirty_ratio', 'dirty_bytes'];
    const [expire, writeback, ratio, bytes] = await Promise.all(names.map((name) => fact(`sys/vm/${name}`, parseNumber)));
    for (const one of [expire, writeback, ratio, bytes]) if (one?.known === false) return one;
    if (!(expire?.known && writeback?.known && ratio?.known && bytes?.known)) return { known: false, why: `cannot read ${proc}/sys/vm` };
    return {
      known: true,
      value: { expireCentisecs: expire.value, writebackCentisecs: writeback.value, ratio: ratio.value, bytes: bytes.value },
      source: `${proc}/sys/vm/dirty_*`,
    };
  }

  async function pidNamespace(): Promise<string> {
    const link = await readlink(`${proc}/self/ns/pid`).catch(() => '');
    return parseNamespace(link) ?? firstPidNamespace;
  }

  async function mountOf(path: string): Promise<Fact<MountFacts>> {
    const mounts = await fact('self/mountinfo', parseMountInfo);
    if (!mounts.known) return mounts;
    // What does not exist yet will be made on the mount of its nearest parent.
    for (let at = resolve(path); ; at = dirname(at)) {
      const real = await options.files.realPath(at);
      if (real === null && dirname(at) !== at) continue;
      const value = mountUnder(mounts.value, real ?? at);
      if (value === null) return { known: false, why: `${mounts.source} has no mount for ${at}` };
      return { known: true, value, source: mounts.source };
    }
  }

  return {
    async facts() {
      const [bootTime, init] = await Promise.all([fact('stat', parseBootTime), fact('1/stat', parseProcessStat)]);
      return {
        hostname: ownHostname,
        bootId: await bootId(),
        bootedAt: bootTime.known ? { ...bootTime, value: new Date(bootTime.value * 1000).toISOString() } : bootTime,
        initStartedAt: initStart(bootTime, init),
        memoryBytes: await fact('meminfo', parseMemoryTotal),
        dirty: await dirty(),
        platform: `${platform()} ${release()} ${arch()}`,
        node: process.version,
      };
    },
    mountOf,
    async plannedMount(path) {
      const source = options.fstab ?? '/etc/fstab';
      try {
        const real = (await options.files.realPath(path)) ?? resolve(path);
        return { known: true, value: plannedUnder(parseFstab(await readFile(source, 'utf8')), real), source };
      } catch (error) {
        return { known: false, why: `cannot read ${source}: ${messageOf(error)}` };
      }
    },
    async self() {
      const [boot, own, namespace] = await Promise.all([bootId(), fact('self/stat', parseProcessStat), pidNamespace()]);
      return {
        hostname: ownHostname,
        // Empty means "could not tell", and then `isAlive` cannot tell either.
        bootId: boot.known ? boot.value : '',
        pid: process.pid,
        startTicks: own.known ? own.value.startTicks : '',
        ...(namespace === firstPidNamespace ? {} : { pidNamespace: namespace }),
      };
    },
    async isAlive(holder) {
      if (holder.hostname !== ownHostname) return 'unknown';
      const boot = await bootId();
      if (!boot.known || holder.bootId === '' || holder.startTicks === '') return 'unknown';
      if (holder.bootId !== boot.value) return 'dead';
      // Containers of one machine share its boot id, and often its host name, but each counts its own processes.
      if ((holder.pidNamespace ?? firstPidNamespace) !== (await pidNamespace())) return 'unknown';
      return aliveHere(proc, holder);
    },
    async writersBelow(folder) {
      const real = await options.files.realPath(folder);
      if (real === null) return { known: false, why: `${folder} does not exist` };
      const found = await writersBelow({ proc, folder: real });
      // Whoever is outside a container has no number in it, and none of its descriptors.
      const contained = (await pidNamespace()) !== firstPidNamespace;
      if (!found.known || found.value.length > 0 || !contained) return found;
      return { known: false, why: `nobody in this container; ${found.source} does not show processes outside it` };
    },
    async blockedBelow(folder) {
      const real = await options.files.realPath(folder);
      if (real === null) return { known: false, why: `${folder} does not exist` };
      return blockedBelow({ proc, folder: real });
    },
    locks: () => listLocks({ proc }),
  };
}

/** Linux counts process times in hundredths of a second towards user space, whatever its own clock (USER_HZ). */
const TICKS_PER_SECOND = 100;

function initStart(bootTime: Fact<number>, init: Fact<{ readonly startTicks: string }>): Fact<string> {
  if (!bootTime.known) return bootTime;
  if (!init.known) return init;
  const seconds = bootTime.value + Number(init.value.startTicks) / TICKS_PER_SECOND;
  return { known: true, value: new Date(seconds * 1000).toISOString(), source: init.source };
}

async function aliveHere(proc: string, holder: ProcessIdentity): Promise<'alive' | 'dead' | 'unknown'> {
  let text: string;
  try {
    text = await readFile(`${proc}/${holder.pid}/stat`, 'utf8');
  } catch (error) {
    // ESRCH: it ended while we read. ENOENT: it has gone, or /proc is mounted with `hidepid` and does not show it.
    const gone = isErrno(error, 'ENOENT') || (error as NodeJS.ErrnoException).code === 'ESRCH';
    return gone && !exists(holder.pid) ? 'dead' : 'unknown';
  }
  const now = parseProcessStat(text);
  if (now === null) return 'unknown';
  // A zombie holds nothing any more; it only waits for its parent to notice.
  return now.startTicks === holder.startTicks && now.state !== 'Z' && now.state !== 'X' ? 'alive' : 'dead';
}

function exists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
}
