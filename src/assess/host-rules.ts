import type { Finding, Remedy } from '../core/finding.ts';
import { countOf, type IndexRange } from '../core/ranges.ts';
import type { PlanExtract } from '../core/report.ts';
import { counted, formatBytes } from '../core/units.ts';
import { command, type FindingContext, finding, goOn } from './findings.ts';
import type { Gathered } from './gathered.ts';

export interface HostContext extends FindingContext {
  readonly suspect: { readonly ranges: readonly IndexRange[]; readonly bytes: number; readonly source: string | null };
  readonly timesProblem: string | null;
  readonly extract: PlanExtract;
  /** Files that an engine left in its staging folder, as the caller found them. */
  readonly staged: { readonly folder: string; readonly files: number; readonly bytes: number } | null;
}

/** What the machine says: who writes, which volume, what may have been lost, what fits. */
export function hostFindings(context: HostContext): Finding[] {
  return [
    ...running(context),
    ...volume(context),
    ...suspectBytes(context),
    ...otherHost(context),
    ...room(context),
    ...staged(context),
    ...tree(context),
  ];
}

function running(context: HostContext): Finding[] {
  const { gathered } = context;
  const { writers, ledger } = gathered;
  const found: Finding[] = [];
  const holder = ledger?.holder;
  const again: Remedy = {
    text: 'wait, or look again later; a repair is refused while it runs',
    kind: 'decision',
    commands: [command(context, 'assess')],
  };
  if (holder?.alive === 'alive') {
    const evidence = `leases/run.${holder.lease}: pid ${holder.pid} on ${holder.hostname} since ${holder.since}, and that process lives`;
    found.push(finding('TM-H01', 'info', 'the run is alive', evidence, again));
  } else if (writers.known && writers.value.length > 0) {
    const named = writers.value.slice(0, 4).map((writer) => `pid ${writer.pid} (${writer.command || 'unnamed'}) has ${writer.path} open`);
    const more = writers.value.length > 4 ? `; and ${writers.value.length - 4} more` : '';
    found.push(finding('TM-H01', 'warning', 'something is writing here', `${writers.source}: ${named.join('; ')}${more}`, again));
  } else if (!writers.known) {
    found.push(finding('TM-H08', 'info', 'whether something writes here could not be told', writers.why, again));
  }
  return found;
}

/** The volume of the last start against today's; null where one of the two is unknown. */
export function volumeChange(gathered: Gathered): string | null {
  const start = gathered.ledger?.lastStart;
  const { mount } = gathered.host;
  if (start === undefined || start === null || !mount.known || start.mountSource === null) return null;
  if (start.mountSource === mount.value.source && (start.filesystem === null || start.filesystem === mount.value.filesystem)) return null;
  return `the last start recorded ${start.mountSource} (${start.filesystem ?? 'filesystem unknown'}); ${mount.source} says ${mount.value.source} (${mount.value.filesystem}) at ${mount.value.mountPoint} now`;
}

function volume(context: HostContext): Finding[] {
  const { gathered } = context;
  const verify = command(context, 'verify', '--level', 'checksum');
  const change = volumeChange(gathered);
  if (change !== null) {
    const remedy: Remedy = { text: 'read every byte before these files are trusted', kind: 'fix', commands: [verify] };
    return [finding('TM-H02', 'error', 'the volume is not the one these files were written to: all bytes are suspect', change, remedy)];
  }
  if (gathered.ledger?.lastStart?.mountSource != null && gathered.host.mount.known) return [];
  if (gathered.columns.rows === 0 || context.judged.next === 0) return [];
  const why = gathered.host.mount.known ? 'no start of a run recorded its volume' : gathered.host.mount.why;
  const remedy: Remedy = {
    text: 'if the volume was moved, or it or the pool under it ran full, every byte is suspect until it was read',
    kind: 'fix',
    commands: [verify],
  };
  return [finding('TM-H12', 'info', 'nothing is recorded to tell whether this is the volume the files were written to', why, remedy)];
}

function suspectBytes(context: HostContext): Finding[] {
  const { ranges, bytes, source } = context.suspect;
  const count = countOf(ranges);
  if (count === 0) return [];
  const remedy: Remedy = {
    text: `read every byte of them (${formatBytes(bytes)})`,
    kind: 'fix',
    commands: [command(context, 'verify', '--level', 'checksum')],
  };
  const title = `the bytes of ${counted(count, 'file')} are not proved and may have been lost`;
  return [finding('TM-H09', 'warning', title, source ?? 'inference', remedy, ranges)];
}

function otherHost(context: HostContext): Finding[] {
  const { host, ledger } = context.gathered;
  const start = ledger?.lastStart;
  if (start === undefined || start === null || ledger?.holder?.alive === 'alive') return [];
  const parts: string[] = [];
  if (start.hostname !== null && start.hostname !== host.hostname) parts.push(`host ${start.hostname} then, ${host.hostname} now`);
  if (start.bootId !== null && host.bootId.known && start.bootId !== host.bootId.value) {
    parts.push(`the host has booted since (boot ${start.bootId.slice(0, 8)} then, ${host.bootId.value.slice(0, 8)} now)`);
  }
  if (parts.length === 0) return [];
  const remedy = goOn(context, 'nothing to mend: what was committed was on disk before');
  const title = 'the last start was on another host or before a reboot';
  return [finding('TM-H04', 'info', title, `journal/run, start of ${new Date(start.at).toISOString()}: ${parts.join('; ')}`, remedy)];
}

function room(context: HostContext): Finding[] {
  const { gathered, extract } = context;
  const { space } = gathered.host;
  if (!space.known || extract.count === 0) return [];
  const { freeBytes, totalBytes } = space.value;
  const free = `${formatBytes(freeBytes)} of ${formatBytes(totalBytes)} free (${space.source})`;
  const reserve = gathered.ledger?.reserveBytes ?? 0;
  if (extract.bytes === null) return [];
  const need = `the plan needs about ${formatBytes(extract.bytes)} (bytes a token of the sound files)${reserve > 0 ? ` and ${formatBytes(reserve)} are to stay free` : ''}`;
  if (extract.bytes + reserve <= freeBytes) {
    return [finding('TM-H06', 'info', `it fits: ${free}`, need, goOn(context, 'go on'))];
  }
  const remedy: Remedy = {
    text: 'make room first; a run that will not fit does not start',
    kind: 'decision',
    commands: [['df', '-h', gathered.folder], command(context, 'purge')],
  };
  return [finding('TM-H07', 'error', `it does not fit: ${free}`, need, remedy)];
}

function staged(context: HostContext): Finding[] {
  const { staged: seen } = context;
  if (seen === null || seen.files === 0) return [];
  const remedy: Remedy = { text: 'remove them once nothing runs', kind: 'fix', commands: [command(context, 'purge')] };
  const title = `${counted(seen.files, 'file waits', 'files wait')} in the engine's staging folder, ${formatBytes(seen.bytes)}`;
  return [
    finding(
      'TM-H10',
      'info',
      title,
      `listing of ${seen.folder}: a capture that was never fetched, or fetched and not cleared away`,
      remedy,
    ),
  ];
}

function tree(context: HostContext): Finding[] {
  const { gathered, timesProblem } = context;
  const found: Finding[] = [];
  const look = (text: string): Remedy => ({ text, kind: 'decision', commands: [command(context, 'assess')] });
  if (timesProblem !== null) {
    const remedy: Remedy = { text: 'read every byte', kind: 'fix', commands: [command(context, 'verify', '--level', 'checksum')] };
    found.push(finding('TM-H11', 'warning', "the files' times prove nothing: every file is suspect", timesProblem, remedy));
  }
  if (gathered.unlisted.length > 0) {
    const named = gathered.unlisted.slice(0, 4).map(({ path, why }) => `${path}: ${why}`);
    found.push(
      finding(
        'TM-H13',
        'error',
        'some folders could not be listed: nothing is known of their rows',
        named.join('; '),
        look('see to them and look again'),
      ),
    );
  }
  if (gathered.linkedFolders.length > 0) {
    const named = gathered.linkedFolders.slice(0, 8).join(', ');
    found.push(
      finding(
        'TM-H14',
        'info',
        'some shard folders are links to other places',
        `listing: ${named}`,
        look('their files were read; free space was asked of the main folder only'),
      ),
    );
  }
  return found;
}
