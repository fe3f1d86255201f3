import { TidemarkError } from '../core/errors.ts';
import type { Settings } from '../core/settings.ts';
import { shellLine, visible } from '../core/shell-line.ts';
import type { Host } from '../host/host.ts';
import { isBelow } from '../host/proc.ts';
import { journalRuns } from '../ledger/journal.ts';
import type { LedgerReader } from '../ledger/ledger.ts';
import { runIdOf } from '../ledger/run-record.ts';
import { createRun, matchRun, replaceRowTable } from '../ledger/write.ts';
import { settingsDocument } from './config-settings.ts';
import { identityOf, type RunInputs } from './run-inputs.ts';
import { refuseUnnamedRows } from './run-layout.ts';

/** Makes the run, or sees that the folder is this run's; a row table that is gone or has grown is written anew. */
export async function prepareFolder(
  host: Host,
  settings: Settings,
  inputs: RunInputs,
  ledger: LedgerReader | null,
  folderId: string,
): Promise<void> {
  const folder = settings.output;
  const { table } = inputs.dataset;
  const identity = identityOf(settings, inputs);
  if (ledger === null) {
    await refuseForeignTree(host, folder, settings.dataset.path, runIdOf(identity));
    await createRun(host, folder, identity, folderId, table, settingsDocument(settings));
    return;
  }
  const { replaceTable } = matchRun(folder, ledger.run, identity, table, ledger.table);
  refuseUnnamedRows(identity.layout, folder, ledger.table?.rows ?? ledger.run.identity.dataset.rows, table.rows);
  if (replaceTable) await replaceRowTable(host, folder, table);
}

/**
 * A folder with somebody's files and no run of ours is not taken over silently. A run whose run.json has gone is known by its
 * journals: the same inputs make the same id, and it goes on.
 */
async function refuseForeignTree(host: Host, folder: string, dataset: string, runId: string): Promise<void> {
  const journals = await journalRuns(host.files, folder);
  if (journals.length > 0) {
    if (journals.every((id) => id === runId)) return;
    throw new TidemarkError(
      'run-mismatch',
      `${folder} has no run.json, and its journals are of run ${journals.join(', ')}; what was asked is run ${runId}`,
      {
        where: folder,
        hint: 'give the configuration, model and dataset that the folder was begun with',
      },
    );
  }
  const entries = (await host.files.list(folder)) ?? [];
  const foreign = entries.filter((entry) => entry.name !== '.tidemark' && entry.name !== 'lost+found');
  if (foreign.length === 0) return;
  const named = foreign
    .slice(0, 3)
    .map((entry) => visible(entry.name))
    .join(', ');
  throw new TidemarkError('decision-needed', `${folder} is not empty and is no run of tidemark (it holds ${named}); nothing was written`, {
    where: folder,
    hint: `see what is in it: ${shellLine(['tidemark', 'assess', folder, '--dataset', dataset])}`,
  });
}

/** What lies below staging is deleted once it is kept, so nothing of the run may lie there, by whatever links. */
export async function refuseOverlap(host: Host, settings: Settings): Promise<void> {
  const staging = await realOrParent(host, settings.engine.staging);
  const output = await realOrParent(host, settings.output);
  if (!isBelow(output, staging) && !isBelow(staging, output)) return;
  throw new TidemarkError(
    'config',
    `engine.staging ${settings.engine.staging} and output ${settings.output} must be apart: they are ${staging} and ${output}`,
    {
      where: 'engine.staging',
      hint: 'give the server a folder of its own, such as /dev/shm/tidemark',
    },
  );
}

/** The real path of a name, or of its nearest parent that is there with the rest behind it. */
async function realOrParent(host: Host, path: string): Promise<string> {
  const real = await host.files.realPath(path);
  if (real !== null || path === '/') return real ?? '/';
  const at = path.lastIndexOf('/');
  const parent = await realOrParent(host, path.slice(0, at) || '/');
  return `${parent === '/' ? '' : parent}/${path.slice(at + 1)}`;
}
