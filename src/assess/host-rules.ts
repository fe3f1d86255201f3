import type { Finding, Remedy } from '../core/finding.ts';
import { countOf, type IndexRange } from '../core/ranges.ts';
import type { PlanExtract } from '../core/report.ts';
import { counted, formatBytes, formatCount, formatSeconds } from '../core/units.ts';
import { command, type FindingContext, files, finding, goOn } from './findings.ts';
import type { Gathered } from './gathered.ts';
import { runningSigns, unseenWriter } from './running-signs.ts';
import { sharedMount } from './shared-mounts.ts';

export interface HostContext extends FindingContext {
  readonly suspect: { readonly ranges: readonly IndexRange[]; readonly bytes: number; readonly source: string | null };
  /** The suspects that were few enough to be read to the end at once; null where none were. */
  readonly readAtOnce: HostContext['suspect'] | null;
  readonly timesProblem: string | null;
  /** When the newest file was written, by its own time; null where there is none. */
  readonly lastMs: number | null;
  readonly extract: PlanExtract;
  /** Files that an engine left in its staging folder, as the caller found them. */
  readonly staged: { readonly folder: string; readonly files: number; readonly bytes: number } | null;
}

/** What the machine says: who writes, which volume, what may have been lost, what fits. */
export function hostFindings(context: HostContext): Finding[] {
  return [
    ...running(context),
    ...askedAgain(context),
    ...volume(context),
    ...suspectBytes(context),
    ...readSuspects(context),
    ...otherHost(context),
    ...room(context),
    ...staged(context),
    ...tree(context),
  ];
}

function running(context: HostContext): Finding[] {
  const { gathered } = context;
  const again: Remedy = {
    text: 'wait, or look again later; a repair is refused while it runs',
    kind: 'decision',
    commands: [command(context, 'assess')],
  };
  const signs = runningSigns(gathered);
  const evidence = signs.map((sign) => sign.evidence).join('; ');
  if (gathered.ledger?.holder?.alive === 'alive') return [finding('TM-H01', 'info', 'the run is alive', evidence, again)];
  if (signs.length > 0) return [finding('TM-H01', 'warning', 'something is writing here', evidence, again)];
  const { writers, locks } = gathered;
  const unknown = [...(writers.known ? [] : [writers.why]), ...(locks === null || locks.known ? [] : [locks.why])];
  return [
    ...(unknown.length === 0
      ? []
      : [finding('TM-H08', 'info', 'whether something writes here could not be told', unknown.join('; '), again)]),
    ...unseen(context, again),
  ];
}

function unseen(context: HostContext, again: Remedy): Finding[] {
  const { lastMs } = context;
  const found = lastMs === null ? null : unseenWriter(context.gathered, lastMs);
  if (found === null) return [];
  const title = `the last file was written ${found.ago}, and nobody of this machine has it open: a writer on another machine is seen only by its files`;
  return [
    finding('TM-H18', 'warning', title, found.evidence, {
      ...again,
      text: 'look again in a few minutes before anything is taken for lost',
    }),
  ];
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

/** What a mount that keeps names and sizes was asked twice, and whether its second answer can be believed. */
function askedAgain(context: HostContext): Finding[] {
  const { askedAgain: asked, host, folder } = context.gathered;
  if (asked === null) return [];
  const shared = host.mount.known ? sharedMount(host.mount.value) : null;
  const changed = asked.appeared + asked.mended;
  if (changed === 0 && (shared === null || asked.folders + asked.files === 0)) return [];
  const outcome = [
    asked.appeared === 0 ? '' : `${files(asked.appeared)} came up`,
    asked.mended === 0 ? '' : `${files(asked.mended)} ${asked.mended === 1 ? 'was' : 'were'} whole the second time`,
  ].filter((part) => part !== '');
  const evidence = [
    `${formatCount(asked.folders)} ${asked.folders === 1 ? 'folder' : 'folders'} listed and ${files(asked.files)} opened anew: ${outcome.length === 0 ? 'nothing changed' : outcome.join(', ')}`,
    shared === null ? `the filesystem of ${folder} is not known` : shared.why,
    ...(asked.leftOut === null ? [] : [`not asked again: ${asked.leftOut}`]),
  ].join('; ');
  const sure = shared?.opening === 'asks' && asked.leftOut === null;
  const remedy: Remedy = {
    text: sure ? 'the answers are the server\u2019s own' : 'look again in a minute: the second answer may be as old as the first',
    kind: 'decision',
    commands: [command(context, 'assess')],
  };
  const title = `${shared?.filesystem ?? 'an unknown filesystem'} was asked twice before anything was called missing, lost or torn`;
  return [finding('TM-H19', 'info', title, evidence, remedy)];
}

function suspectBytes(context: HostContext): Finding[] {
  const { ranges, bytes, source } = context.suspect;
  const count = countOf(ranges);
  if (count === 0) return [];
  const remedy: Remedy = {
    text: `read every byte of them (${formatBytes(bytes)}: ${scrubTime(bytes)})`,
    kind: 'fix',
    commands: [command(context, 'verify', '--level', 'checksum')],
  };
  const title = `the bytes of ${counted(count, 'file')}, ${formatBytes(bytes)}, are not proved and may have been lost`;
  return [finding('TM-H09', 'warning', title, source ?? 'inference', remedy, ranges)];
}

/** What one NVMe disk gives, and what one hard disk or a slow share does. Nothing was measured: the text says so. */
const FAST_BYTES_PER_SECOND = 2e9;
const SLOW_BYTES_PER_SECOND = 2e8;

function scrubTime(bytes: number): string {
  const [least, most] = [bytes / FAST_BYTES_PER_SECOND, bytes / SLOW_BYTES_PER_SECOND];
  if (most < 60) return 'less than a minute';
  return `${formatSeconds(least)} at ${formatBytes(FAST_BYTES_PER_SECOND)}/s, ${formatSeconds(most)} at ${formatBytes(SLOW_BYTES_PER_SECOND)}/s`;
}

/** The suspect set of a run that ended, where nothing of it is left to prove: how large it was, and the formula. */
function readSuspects(context: HostContext): Finding[] {
  const { readAtOnce: read, gathered } = context;
  if (read === null || runningSigns(gathered).length > 0) return [];
  const count = countOf(read.ranges);
  const title = `${files(count)}, ${formatBytes(read.bytes)}, may have been in the page cache only and ${count === 1 ? 'was' : 'were'} read to the end`;
  const remedy = goOn(context, 'what was lost of them is among the verdicts');
  return [finding('TM-H20', 'info', title, read.source ?? 'inference', remedy, read.ranges)];
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
