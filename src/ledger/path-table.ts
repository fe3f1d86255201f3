import { createHash } from 'node:crypto';
import { z } from 'zod';
import { TidemarkError } from '../core/errors.ts';
import { encodeLine, parseLines } from '../format/checked-lines.ts';
import type { FileReader } from '../host/host.ts';
import { memoryPath } from './paths.ts';

const FORMAT = 'tidemark.paths/1';
const ROWS_A_LINE = 1000;
/** Some five million rows. */
export const PATHS_BYTES_MOST = 512 * 1024 * 1024;

/** A path inside the run folder and outside `.tidemark/`, whatever a damaged or hostile table says. */
const path = z
  .string()
  .max(4096)
  .refine((text) => text.split('/').every((part) => part !== '' && !part.startsWith('.') && !part.includes('\0')), {
    error: 'expected a path inside the folder',
  });

const headerSchema = z.object({ format: z.string(), rows: z.int().nonnegative() });
const lineSchema = z.strictObject({ from: z.int().nonnegative(), paths: z.array(path.nullable()).min(1).max(ROWS_A_LINE) });

/** The bytes of `paths.log` for the file of each row, and their SHA-256. */
export function encodePathTable(paths: readonly (string | null)[]): { readonly bytes: Uint8Array; readonly sha256: string } {
  const lines = [encodeLine({ format: FORMAT, rows: paths.length })];
  for (let from = 0; from < paths.length; from += ROWS_A_LINE)
    lines.push(encodeLine({ from, paths: paths.slice(from, from + ROWS_A_LINE).map((entry) => entry ?? null) }));
  const bytes = Buffer.concat(lines);
  return { bytes, sha256: createHash('sha256').update(bytes).digest('hex') };
}

/**
 * The file of each row, as the run wrote it down.
 * @throws TidemarkError `format-refused` when it is gone, of another version, or not the one that `run.json` names
 */
export async function readPathTable(files: FileReader, folder: string, sha256: string): Promise<readonly (string | null)[]> {
  const where = memoryPath(folder, 'paths.log');
  const refuse = (why: string): TidemarkError =>
    new TidemarkError('format-refused', `${where}, which names this run's files, cannot be used: ${why}`, {
      where,
      hint: `move ${memoryPath(folder)} aside and adopt the files anew: tidemark adopt ${folder}`,
    });
  const bytes = await files.readSmall(where, PATHS_BYTES_MOST);
  if (bytes === null) throw refuse('it is not there');
  if (createHash('sha256').update(bytes).digest('hex') !== sha256) throw refuse('it is not the table that run.json names');
  const [first, ...rest] = parseLines(bytes).values;
  const header = headerSchema.safeParse(first).data;
  if (header?.format !== FORMAT) throw refuse(`it is of format ${JSON.stringify(header?.format)}, and this tidemark reads ${FORMAT}`);
  const paths: (string | null)[] = [];
  for (const value of rest) {
    const line = lineSchema.safeParse(value);
    if (!line.success || line.data.from !== paths.length) throw refuse('a line of it is of another form');
    for (const entry of line.data.paths) paths.push(entry);
  }
  if (paths.length !== header.rows) throw refuse(`it says ${header.rows} rows and names ${paths.length}`);
  return paths;
}
