import { describe, expect, it } from 'vitest';
import { createMemoryFiles } from '../../test/support/memory-files.ts';
import { encodeLine } from '../format/checked-lines.ts';
import type { GeneratedRow } from './conversation.ts';
import { partNumber, partPath } from './folder.ts';
import { endsClosed, PART_FORMAT, type PartRecord, PartWriter, partNumbers, readAnswer, readPart } from './parts.ts';

const folder = '/out.tidemark';

function row(id: string, tokens = 3): GeneratedRow {
  return {
    id,
    messages: [{ role: 'user', content: 'ä' }],
    input_ids: Array<number>(tokens).fill(70_000),
    loss_mask: Array<number>(tokens).fill(1),
    finish_reason: 'stop',
    turns: [{ finish_reason: 'stop', prompt_tokens: 1, completion_tokens: 2 }],
    sampling: { seed: 1 },
  };
}

async function recordsOf(files: ReturnType<typeof createMemoryFiles>, part = 1) {
  const found: { record: PartRecord; place: { part: number; offset: number; bytes: number } }[] = [];
  for await (const one of readPart(files, folder, part)) found.push(one);
  return found;
}

async function put(files: ReturnType<typeof createMemoryFiles>, path: string, bytes: Uint8Array): Promise<void> {
  const file = await files.create(path, 0o644);
  await file.write(bytes);
  await file.close();
}

describe('a part', () => {
  it('gives back its records, and each answer at its place', async () => {
    const files = createMemoryFiles({ folders: [folder] });
    const writer = await PartWriter.create(files, folder, 1);
    // The second line is longer than the pieces that a part is read in.
    const rows = [row('a'), row('b', 1_000_000), row('c')];
    const places = await Promise.all(rows.map((one) => writer.append({ kind: 'answer', row: one })));
    await writer.append({ kind: 'failure', id: 'd', code: 'engine-busy', message: 'm', final: false, at: 1 });
    expect(await endsClosed(files, partPath(folder, 1))).toBe(false);
    await writer.close();
    expect(await endsClosed(files, partPath(folder, 1))).toBe(true);
    const found = await recordsOf(files);
    expect(found.map(({ record }) => record.kind)).toEqual(['answer', 'answer', 'answer', 'failure', 'close']);
    expect(found.slice(0, 3).map(({ place }) => place)).toEqual(places);
    const file = await files.open(partPath(folder, 1));
    if (file === null) throw new Error('no part');
    for (const [at, place] of places.entries()) expect(await readAnswer(file, place, 'p')).toEqual(rows[at]);
    await expect(readAnswer(file, { part: 1, offset: 1, bytes: 50 }, 'p')).rejects.toMatchObject({ code: 'storage-failed' });
  });

  it('cut or changed at any byte holds what stands before it', async () => {
    const lines = [encodeLine({ format: PART_FORMAT, part: 1 }), ...['a', 'b', 'c'].map((id) => encodeLine({ kind: 'accept', id }))];
    const whole = Buffer.concat(lines);
    const ends = lines.map((_, at) => lines.slice(0, at + 1).reduce((sum, line) => sum + line.length, 0));
    for (let at = 0; at < whole.length; at += 1) {
      const before = Math.max(0, ends.filter((end) => end <= at).length - 1);
      const changed = Buffer.from(whole);
      changed[at] = (changed[at] ?? 0) ^ 0x40;
      for (const bytes of [whole.subarray(0, at), changed, Buffer.concat([whole.subarray(0, at), Buffer.alloc(5000)])]) {
        const files = createMemoryFiles({ folders: [folder] });
        await put(files, partPath(folder, 1), bytes);
        expect(await recordsOf(files), `byte ${at}`).toHaveLength(before);
      }
    }
  });

  it('of another version or with an unknown record is refused', async () => {
    for (const lines of [[{ format: 'tidemark.answers/2' }], [{ format: PART_FORMAT }, { kind: 'new' }]]) {
      const files = createMemoryFiles({ folders: [folder] });
      await put(files, partPath(folder, 1), Buffer.concat(lines.map(encodeLine)));
      await expect(recordsOf(files)).rejects.toMatchObject({ code: 'format-refused' });
    }
  });

  it('has one name for each number', async () => {
    expect([1, 12, 12345].map((number) => partNumber(partPath('', number).slice(1)))).toEqual([1, 12, 12345]);
    expect(['part-1.log', 'part-0000.log', 'part-00012.log', 'part-0001.log.tmp', 'x'].map(partNumber)).toEqual([
      null,
      null,
      null,
      null,
      null,
    ]);
    const files = createMemoryFiles({ folders: [folder] });
    for (const number of [12, 3]) await put(files, partPath(folder, number), new Uint8Array(0));
    expect(await partNumbers(files, folder)).toEqual([3, 12]);
  });
});
