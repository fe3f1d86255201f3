import { z } from 'zod';
import { TidemarkError } from '../core/errors.ts';
import { encodeLine, parseLines } from '../format/checked-lines.ts';
import type { FileReader, Host } from '../host/host.ts';
import { LOCK_NAME, lockPath, partPath } from './folder.ts';
import { endsClosed } from './parts.ts';

const FORMAT = 'tidemark.generate-lock/1';
const LOCK_BYTES_MOST = 64 * 1024;

const lockSchema = z.object({
  format: z.literal(FORMAT),
  number: z.int().positive(),
  holder: z.object({ hostname: z.string(), bootId: z.string(), pid: z.int(), startTicks: z.string(), pidNamespace: z.string().optional() }),
  takenAt: z.string(),
});

/**
 * The right to write answers, numbered like the leases of docs/on-disk.md: lock N is made with `link`, so exactly one process gets it, and its holder
 * alone writes part N. It is over when part N ends with `close`, or its holder is dead.
 * @returns N
 * @throws TidemarkError `run-locked`; `run-unknown-holder` when only a person can tell
 */
export async function takeLock(host: Host, folder: string, takeOver: boolean): Promise<number> {
  const numbers = await lockNumbers(host.files, folder);
  const newest = Math.max(0, ...numbers);
  if (newest > 0) await refuseLiving(host, folder, newest, takeOver);
  const number = newest + 1;
  const line = encodeLine({ format: FORMAT, number, holder: await host.machine.self(), takenAt: new Date(host.clock.now()).toISOString() });
  const final = lockPath(folder, number);
  const temporary = `${final}.${Buffer.from(host.randomBytes(6)).toString('hex')}.tmp`;
  await writeDurably(host, temporary, line);
  const linked = await host.files.link(temporary, final);
  await host.files.unlink(temporary);
  if (linked === 'unsupported' && (await host.files.stat(final)) === null) await writeDurably(host, final, line);
  else if (linked !== true) throw locked(folder, 'another process was a moment faster');
  await host.files.syncDirectory(folder);
  return number;
}

async function refuseLiving(host: Host, folder: string, number: number, takeOver: boolean): Promise<void> {
  const bytes = await host.files.readSmall(lockPath(folder, number), LOCK_BYTES_MOST);
  const lock = lockSchema.safeParse(bytes === null ? null : parseLines(bytes).values[0]);
  const alive = lock.success ? await host.machine.isAlive(lock.data.holder) : 'unknown';
  if (alive === 'dead' || (await endsClosed(host.files, partPath(folder, number)))) return;
  if (alive === 'unknown' && takeOver) return;
  const who = lock.success
    ? `process ${lock.data.holder.pid} on ${lock.data.holder.hostname}, since ${lock.data.takenAt}`
    : `the holder of an unreadable ${LOCK_NAME}.${number}`;
  if (alive === 'alive') throw locked(folder, `by ${who}`);
  throw new TidemarkError(
    'run-unknown-holder',
    `${folder} is held by ${who}, and from this machine nobody can tell whether it still runs`,
    {
      where: folder,
      hint: 'make sure that it is dead, then give --take-over',
    },
  );
}

/** The numbers of all locks ever taken, in no order. */
export async function lockNumbers(files: FileReader, folder: string): Promise<number[]> {
  const entries = (await files.list(folder)) ?? [];
  return entries.flatMap(({ name }) => {
    const match = /^lock\.([1-9]\d{0,8})$/.exec(name);
    return match === null ? [] : [Number(match[1])];
  });
}

function locked(folder: string, who: string): TidemarkError {
  return new TidemarkError('run-locked', `${folder} is being written: ${who}`, {
    where: folder,
    retry: 'later',
    hint: 'wait for it, or stop it first',
  });
}

/** A new file with all its bytes on the disk; its name is not durable yet. */
export async function writeDurably(host: Host, path: string, bytes: Uint8Array): Promise<void> {
  const file = await host.files.create(path, 0o644);
  try {
    await file.write(bytes);
    await file.sync();
  } finally {
    await file.close();
  }
}
