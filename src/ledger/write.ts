import { TidemarkError } from '../core/errors.ts';
import type { RunIdentity, Settings } from '../core/settings.ts';
import { encodeDocument } from '../format/checked-document.ts';
import type { RowTable } from '../format/row-table.ts';
import type { Host } from '../host/host.ts';
import { createJournal, readScope } from './journal.ts';
import { listLeases, takeLease } from './lease.ts';
import type { JournalWriter, RunRecord, RunWriter } from './ledger.ts';
import { memoryPath, type Scope, shardScope } from './paths.ts';
import { encodeRunRecord, identityDifferences, readRunRecord } from './run-record.ts';
import { ensureFolder, replaceFile, writeDurably } from './whole-file.ts';

/** The resolved settings with the version of their form; app/config-settings.ts has it. */
export type SettingsDocument = Settings & { readonly format: string };

/**
 * Makes `.tidemark/` in a folder that has none. `run.json` comes last: without it there is no run, and a
 * start that died before it is begun again.
 * @param paths `paths.log`, where names do not follow from rows
 * @throws TidemarkError `run-locked` when another process made a run here at the same moment
 */
export async function createRun(
  host: Host,
  folder: string,
  identity: RunIdentity,
  folderId: string,
  table: RowTable,
  settings: SettingsDocument,
  paths: Uint8Array | null = null,
): Promise<RunRecord> {
  const { record, bytes } = encodeRunRecord(identity, folderId, new Date(host.clock.now()).toISOString());
  await ensureFolder(host.files, folder);
  await ensureFolder(host.files, memoryPath(folder));
  await replaceRowTable(host, folder, table);
  await writeSettings(host, folder, settings);
  if (paths !== null) await replaceFile(host, memoryPath(folder, 'paths.log'), paths);
  await publishRunRecord(host, folder, bytes);
  return record;
}

/** `rows.bin`, replaced whole: when the dataset has grown, or the file is gone and the dataset is at hand. */
export async function replaceRowTable(host: Host, folder: string, table: RowTable): Promise<void> {
  await replaceFile(host, memoryPath(folder, 'rows.bin'), table.encode());
}

async function publishRunRecord(host: Host, folder: string, bytes: Uint8Array): Promise<void> {
  const path = memoryPath(folder, 'run.json');
  const temporary = `${path}.${Buffer.from(host.randomBytes(6)).toString('hex')}.tmp`;
  await writeDurably(host, temporary, bytes);
  const linked = await host.files.link(temporary, path);
  if (linked === 'unsupported') {
    await host.files.rename(temporary, path);
  } else {
    await host.files.unlink(temporary);
    if (!linked) {
      throw new TidemarkError('run-locked', `another process began a run in ${folder} a moment ago`, {
        where: folder,
        retry: 'later',
        hint: `tidemark assess ${folder}`,
      });
    }
  }
  await host.files.syncDirectory(memoryPath(folder));
}

/** `settings.json`, replaced whole. */
export async function writeSettings(host: Host, folder: string, settings: SettingsDocument): Promise<void> {
  await replaceFile(host, memoryPath(folder, 'settings.json'), encodeDocument(settings));
}

/**
 * Compares a folder's run with what is asked, before anything is written. A dataset that grew at its
 * end is the same run; any other difference is named.
 * @returns whether `rows.bin` must be replaced because rows were appended
 * @throws TidemarkError `run-mismatch`
 */
export function matchRun(
  folder: string,
  run: RunRecord,
  asked: RunIdentity,
  table: RowTable,
  known: RowTable | null,
): { readonly replaceTable: boolean } {
  const here = run.identity;
  if (table.rows >= here.dataset.rows && table.rootOfFirst(here.dataset.rows) === here.dataset.root) {
    const differences = identityDifferences(here, { ...asked, dataset: here.dataset });
    if (differences.length > 0) throw mismatch(folder, differences);
    const rows = known?.rows ?? 0;
    if (known !== null && (table.rows < rows || table.rootOfFirst(rows) !== known.root))
      throw mismatch(folder, datasetDifferences(known, table));
    return { replaceTable: table.rows > rows };
  }
  const differences = identityDifferences(here, { ...asked, dataset: here.dataset });
  throw mismatch(folder, [
    ...(known === null ? [`dataset.root: ${here.dataset.root} here, ${table.root} asked`] : datasetDifferences(known, table)),
    ...differences,
  ]);
}

function datasetDifferences(known: RowTable, table: RowTable): string[] {
  const rows = known.differences(table, 5);
  const named =
    rows.length > 0 ? `rows ${rows.join(', ')}${rows.length === 5 ? ' …' : ''} are others now` : 'the rows that both have are the same';
  return [`dataset: ${known.rows} rows here, ${table.rows} asked; ${named}`];
}

function mismatch(folder: string, differences: readonly string[]): TidemarkError {
  return new TidemarkError(
    'run-mismatch',
    `${folder} belongs to another run; nothing was written. It differs in\n  ${differences.join('\n  ')}`,
    {
      where: folder,
      hint: 'give another output folder with --output, or the settings that the folder was begun with',
    },
  );
}

/**
 * Takes the `run` lease. Under it nobody else should hold a shard's; one that lives is refused all the same.
 * @throws TidemarkError `run-locked`, `run-unknown-holder`, `no-run`
 */
export async function openRunWriter(host: Host, folder: string, options: { readonly takeOver: boolean }): Promise<RunWriter> {
  const run = await readRunRecord(host.files, folder);
  if (run === null) {
    throw new TidemarkError('no-run', `${folder} is no run of tidemark: it has no .tidemark/run.json`, {
      where: folder,
      hint: `tidemark assess ${folder} --dataset FILE`,
    });
  }
  // What an earlier start made and was killed before syncing must not hang on names that a power cut takes.
  await ensureFolder(host.files, folder);
  await ensureFolder(host.files, memoryPath(folder));
  await host.files.syncDirectory(memoryPath(folder));
  const journal = await openScope(host, folder, run, 'run', options.takeOver);
  return {
    run,
    journal,
    shard: (shard) => openScope(host, folder, run, shardScope(shard), options.takeOver),
    close: () => journal.close(),
  };
}

async function openScope(host: Host, folder: string, run: RunRecord, scope: Scope, force: boolean): Promise<JournalWriter> {
  const leases = (await listLeases(host.files, folder)).get(scope) ?? [];
  const before = await readScope(host.files, folder, run.id, scope, leases);
  const unread = before.problems.find((problem) => problem.kind === 'unreadable');
  if (unread !== undefined) {
    // Writing behind records that we may not see would cut them off for good.
    throw new TidemarkError(
      'storage-denied',
      `the journal ${unread.path} cannot be read, so nothing may be written behind it: ${unread.detail}`,
      {
        where: unread.path,
        hint: `ls -l ${unread.path}; make it readable, or run as the user that wrote it`,
      },
    );
  }
  const newer = before.problems.find((problem) => problem.kind === 'unknown-version');
  if (newer !== undefined) {
    throw new TidemarkError('format-refused', `${newer.path} was written by another version of tidemark: ${newer.detail}`, {
      where: newer.path,
      hint: 'continue with the version that wrote it',
    });
  }
  const lease = await takeLease(host, folder, scope, { existing: leases, released: before.closed, force });
  // Read again now that the lease is ours: what the last holder wrote in between still counts.
  const { fence } = await readScope(host.files, folder, run.id, scope, [...leases, lease]);
  return createJournal(host.files, folder, run.id, scope, lease, fence);
}
