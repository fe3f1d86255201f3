import { basename, resolve } from 'node:path';
import { isTidemarkError, TidemarkError } from '../core/errors.ts';
import { EXIT, type ExitCode } from '../core/exit.ts';
import { shellLine } from '../core/shell-line.ts';
import { formatBytes } from '../core/units.ts';
import type { Host, ReadableFile } from '../host/host.ts';
import { type Findings, type Inspection, type InspectLevel, NOTHING_FOUND } from './inspect-document.ts';
import { type SniffedForm, sniffForm } from './inspect-form.ts';
import { inspectGzip } from './inspect-gzip.ts';
import { inspectSafetensors } from './inspect-safetensors.ts';
import { inspectTorch } from './inspect-torch.ts';

export { INSPECT_LEVELS, type InspectedTensor, type InspectedValues, type Inspection, type InspectLevel } from './inspect-document.ts';

/**
 * Everything that one file says of itself, and what of it is proved. Reads only; nothing in the file is run.
 * @throws TidemarkError `no-run` where there is no such file, `usage` for a folder, `storage-*` when it cannot be opened
 */
export async function inspectFile(
  host: Host,
  path: string,
  options: { readonly level: InspectLevel; readonly cwd: string },
): Promise<Inspection> {
  const named = resolve(options.cwd, path);
  const file = await openNamed(host, named);
  try {
    const { stat } = file;
    const seen = await readForm(file, basename(named), options.level);
    const holes =
      stat.allocatedBytes < stat.bytes
        ? [
            `${formatBytes(stat.allocatedBytes)} of ${formatBytes(stat.bytes)} are allocated: the rest are holes, which read as zeros, unless the filesystem compresses`,
          ]
        : [];
    return {
      schema: 'tidemark.inspect/1',
      path: named,
      inspectedAt: new Date(host.clock.now()).toISOString(),
      level: options.level,
      bytes: stat.bytes,
      allocatedBytes: stat.allocatedBytes,
      modifiedAt: new Date(stat.modifiedMs).toISOString(),
      form: seen.form,
      looksLike: seen.looksLike,
      ...seen.findings,
      notProved: [...seen.findings.notProved, ...holes],
    };
  } finally {
    await file.close();
  }
}

/** 0 sound, 3 damaged, 7 refused (docs/exit-codes.md). */
export function exitOfInspection({ verdict }: Inspection): ExitCode {
  if (verdict.kind === 'sound') return EXIT.complete;
  return verdict.kind === 'refused' ? EXIT.refused : EXIT.incomplete;
}

/** A link is followed: a person has named it. */
async function openNamed(host: Host, path: string): Promise<ReadableFile> {
  const real = await host.files.realPath(path);
  const stat = real === null ? null : await host.files.stat(real);
  if (real === null || stat === null) {
    throw new TidemarkError('no-run', `there is no file ${path}`, {
      where: path,
      hint: `check the path, and that its disk is mounted: ${shellLine(['ls', '-l', path])}`,
    });
  }
  if (stat.kind === 'directory') {
    throw new TidemarkError('usage', `${path} is a folder; inspect looks at one file`, {
      where: path,
      hint: shellLine(['tidemark', 'assess', path]),
    });
  }
  const file = await host.files.open(real);
  if (file === null) throw new TidemarkError('no-run', `the file ${path} has just gone`, { where: path });
  return file;
}

async function readForm(file: ReadableFile, name: string, level: InspectLevel): Promise<SniffedForm & { readonly findings: Findings }> {
  if (file.size === 0) {
    return {
      form: 'unknown',
      looksLike: null,
      findings: { ...NOTHING_FOUND, verdict: { kind: 'torn', reason: 'empty', detail: 'the file is there and empty' } },
    };
  }
  let sniffed: SniffedForm = { form: 'unknown', looksLike: null };
  try {
    sniffed = await sniffForm(file, name);
    return { ...sniffed, findings: await findingsOf(file, sniffed, level) };
  } catch (error) {
    // The machine refuses in the middle: a bad sector is news about the file too.
    if (!isTidemarkError(error, 'storage-failed', 'storage-denied')) throw error;
    const reason = error.code === 'storage-denied' ? 'permission' : 'io-error';
    return { ...sniffed, findings: { ...NOTHING_FOUND, verdict: { kind: 'unreadable', reason, detail: error.message } } };
  }
}

async function findingsOf(file: ReadableFile, { form, looksLike }: SniffedForm, level: InspectLevel): Promise<Findings> {
  switch (form) {
    case 'torch-zip':
      return inspectTorch(file, level);
    case 'safetensors':
      return inspectSafetensors(file, level);
    case 'gzip':
      return inspectGzip(file, level);
    case 'torch-legacy':
      return {
        ...NOTHING_FOUND,
        writer: { guess: 'torch before 1.6, or a newer one asked for the old format', source: 'its magic number' },
        verdict: {
          kind: 'refused',
          reason: 'legacy',
          detail:
            "torch.save's old format (no zip): it has no checksum and can only be read by running its pickle; save it again with a newer torch",
        },
      };
    case 'unknown':
      return { ...NOTHING_FOUND, verdict: await verdictOfUnknown(file, looksLike) };
  }
}

const ZERO_BYTES_READ = 64 * 1024;

async function verdictOfUnknown(file: ReadableFile, looksLike: string | null): Promise<Findings['verdict']> {
  if (looksLike !== null) return { kind: 'refused', reason: 'format', detail: `it is ${looksLike}` };
  const start = await file.read(0, Math.min(file.size, ZERO_BYTES_READ));
  if (start.every((byte) => byte === 0))
    return { kind: 'torn', reason: 'zero-filled', detail: `the first ${start.length} of ${file.size} bytes are zero` };
  return { kind: 'refused', reason: 'format', detail: 'neither a torch zip nor safetensors nor gzip: no format that tidemark knows' };
}
