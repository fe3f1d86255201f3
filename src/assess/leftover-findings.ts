import type { Finding, Remedy } from '../core/finding.ts';
import { counted, formatBytes, formatCount, plural } from '../core/units.ts';
import { command, type FindingContext, files, finding } from './findings.ts';

/** Things in the folder that are no row's file. */
export function leftoverFindings(context: FindingContext): Finding[] {
  const { gathered } = context;
  const found: Finding[] = [];
  const of = (...kinds: readonly string[]) => gathered.extras.filter((extra) => kinds.includes(extra.kind));
  const ours = of('temp').filter((extra) => /\.tidemark-L\d+\.\d+\.tmp$/.test(extra.path));
  const sum = (extras: readonly { readonly reclaimableBytes: number }[]): string =>
    formatBytes(extras.reduce((bytes, extra) => bytes + extra.reclaimableBytes, 0));
  const list = (extras: readonly { readonly path: string }[]): string =>
    extras
      .slice(0, 5)
      .map((extra) => extra.path)
      .join(', ') + (extras.length > 5 ? ` and ${formatCount(extras.length - 5)} more` : '');
  const purge: Remedy = {
    text: 'remove them; refused while anything writes here',
    kind: 'fix',
    commands: [command(context, 'purge')],
  };
  // While a driver runs, what it has in hand looks the same.
  if (ours.length > 0 && !context.judged.running) {
    const title = `${counted(ours.length, 'orphan temporary', 'orphan temporaries')}, ${sum(ours)} to reclaim`;
    found.push(finding('TM-S12', 'warning', title, `listing: ${list(ours)}`, purge));
  }
  const quarantine = of('quarantine');
  if (quarantine.length > 0) {
    found.push(
      finding(
        'TM-S13',
        'info',
        `${files(quarantine.length)} in quarantine, ${sum(quarantine)} to reclaim`,
        `listing: ${list(quarantine)}`,
        {
          ...purge,
          kind: 'decision',
          commands: [command(context, 'purge', '--quarantine')],
        },
      ),
    );
  }
  const elsewhere = of('duplicate', 'wrong-folder', 'beyond-dataset', 'off-pattern');
  if (elsewhere.length > 0) {
    const remedy: Remedy = {
      text: 'they were not counted; one that holds a row whose own file is bad can be moved to that name by hand',
      kind: 'decision',
      commands: [command(context, 'assess', '--json')],
    };
    const title = `${files(elsewhere.length)} under other names ${plural(elsewhere.length, 'looks like a sample', 'look like samples')}`;
    found.push(finding('TM-S14', 'warning', title, `listing: ${list(elsewhere)}`, remedy));
  }
  const foreign = gathered.extras.filter((extra) => !ours.includes(extra) && !quarantine.includes(extra) && !elsewhere.includes(extra));
  if (foreign.length + gathered.extrasLeftOut > 0) {
    const more = gathered.extrasLeftOut > 0 ? `; ${formatCount(gathered.extrasLeftOut)} more are counted and not listed` : '';
    const remedy: Remedy = {
      text: 'they are somebody\u2019s; nothing here touches them',
      kind: 'decision',
      commands: [command(context, 'assess', '--json')],
    };
    const title = `${files(foreign.length + gathered.extrasLeftOut)} and folders that are no samples, ${sum(foreign)} on the disk`;
    found.push(finding('TM-S15', 'info', title, `listing: ${list(foreign)}${more}`, remedy));
  }
  return found;
}
