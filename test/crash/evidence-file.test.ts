import { describe, expect, it } from 'vitest';
import { evidencePath, publishEvidence } from '../../src/app/evidence-file.ts';
import { isTidemarkError } from '../../src/core/errors.ts';
import { faultyHost } from '../support/faulty-host.ts';
import { createMemoryFiles } from '../support/memory-files.ts';
import { memoryHost } from '../support/memory-host.ts';

// A tarball is there whole or not at all, whichever step of its making fails or is the last.

const PATH = '/out/e.tar.gz';
const BYTES = Buffer.from('a tarball, let us say');

const freshHost = () => memoryHost({ files: createMemoryFiles({ folders: ['/out', '/run'] }) });

async function contentOf(host: ReturnType<typeof memoryHost>): Promise<string | null> {
  const bytes = await host.files.readSmall(PATH, 1000);
  return bytes === null ? null : Buffer.from(bytes).toString();
}

async function stepsOf(): Promise<number> {
  const counted = faultyHost(freshHost());
  await publishEvidence(counted, PATH, BYTES);
  return counted.trace.length;
}

describe('publishing evidence', () => {
  it('leaves nothing or the whole of it when a step fails, and nothing beside it', async () => {
    const steps = await stepsOf();
    expect(steps).toBeGreaterThanOrEqual(5);
    for (let step = 1; step <= steps; step += 1) {
      const host = freshHost();
      const error = await publishEvidence(faultyHost(host, { faults: [{ kind: 'fail', at: step, error: 'ENOSPC' }] }), PATH, BYTES).then(
        () => null,
        (caught: unknown) => caught,
      );
      expect(isTidemarkError(error), `step ${step} fails`).toBe(true);
      expect([null, BYTES.toString()]).toContain(await contentOf(host));
      const left = host.files.paths().filter((path) => path.startsWith('/out/') && path !== PATH);
      expect(left, `step ${step} fails`).toEqual([]);
    }
  });

  it('is whole under its name wherever the process dies', async () => {
    const steps = await stepsOf();
    for (let step = 1; step <= steps; step += 1) {
      const host = freshHost();
      await publishEvidence(faultyHost(host, { faults: [{ kind: 'tear', at: step }] }), PATH, BYTES).catch(() => undefined);
      expect([null, BYTES.toString()], `dies in step ${step}`).toContain(await contentOf(host));
    }
  });

  it('does not take a name that came meanwhile', async () => {
    const host = freshHost();
    const target = { output: PATH, cwd: '/out', folder: '/run', nowMs: 0 };
    expect(await evidencePath(host, target)).toBe(PATH);
    await publishEvidence(host, PATH, Buffer.from('theirs'));
    await expect(publishEvidence(host, PATH, BYTES)).rejects.toMatchObject({ code: 'usage' });
    expect(await contentOf(host)).toBe('theirs');
  });
});
