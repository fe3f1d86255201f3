import { mkdtemp } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { encodeLine } from '../format/checked-lines.ts';
import type { ProcessIdentity } from '../host/host.ts';
import { createLocalHost } from '../host/local.ts';
import { listLeases, takeLease } from './lease.ts';
import { writeDurably } from './whole-file.ts';

const host = createLocalHost();

async function folder(): Promise<string> {
  const at = await mkdtemp(join(tmpdir(), 'tidemark-lease-'));
  await host.files.makeDirectory(`${at}/.tidemark/leases`);
  return at;
}

async function plant(at: string, holder: ProcessIdentity): Promise<void> {
  const line = encodeLine({
    format: 'tidemark.lease/1',
    scope: 'run',
    number: 1,
    holder,
    takenAt: new Date(0).toISOString(),
    over: 'none',
  });
  await writeDurably(host, `${at}/.tidemark/leases/run.1`, line);
}

const take = (at: string, force = false): Promise<number> => takeLease(host, at, 'run', { existing: [1], released: false, force });

describe('leases', () => {
  it('gives each number to one process only', async () => {
    const at = await folder();
    const tries = await Promise.allSettled(
      Array.from({ length: 8 }, () => takeLease(host, at, 'run', { existing: [], released: false, force: false })),
    );
    expect(tries.filter((outcome) => outcome.status === 'fulfilled')).toHaveLength(1);
    for (const outcome of tries) if (outcome.status === 'rejected') expect(outcome.reason).toMatchObject({ code: 'run-locked' });
    expect((await listLeases(host.files, at)).get('run')).toEqual([1]);
  });

  it('refuses while the holder lives', async () => {
    const at = await folder();
    await plant(at, await host.machine.self());
    await expect(take(at)).rejects.toMatchObject({ code: 'run-locked', hint: expect.stringContaining(`${process.pid}`) });
  });

  it('takes over from a pid that is gone, a pid that was reused, and an earlier boot', async () => {
    const self = await host.machine.self();
    const dead: ProcessIdentity[] = [
      { ...self, pid: 4_194_000 },
      { ...self, startTicks: '1' },
      { ...self, bootId: '00000000-0000-0000-0000-000000000000' },
    ];
    for (const holder of dead) {
      const at = await folder();
      await plant(at, holder);
      expect(await take(at)).toBe(2);
    }
  });

  it('asks a person about a holder on another host', async () => {
    const at = await folder();
    await plant(at, { ...(await host.machine.self()), hostname: `not-${hostname()}` });
    await expect(take(at)).rejects.toMatchObject({ code: 'run-unknown-holder', hint: expect.stringContaining('--take-over') });
    expect(await take(at, true)).toBe(2);
  });

  it('asks a person when the lease file says nothing that checks', async () => {
    const at = await folder();
    await writeDurably(host, `${at}/.tidemark/leases/run.1`, Buffer.from('garbage'));
    await expect(take(at)).rejects.toMatchObject({ code: 'run-unknown-holder' });
  });
});
