import { createHash } from 'node:crypto';
import { assert } from '../core/assert.ts';
import type { Finding } from '../core/finding.ts';
import { mergeRanges } from '../core/ranges.ts';
import type { FolderAccount, Plan, Report, Sourced } from '../core/report.ts';
import { levelAtLeast, VERDICT_KINDS, type VerdictKind } from '../core/verdict.ts';
import type { EndSeen } from './crash-rules.ts';
import type { Gathered } from './gathered.ts';
import { depthRanges, type Judged } from './judge.ts';
import { placementOf } from './placement.ts';
import { runningSigns } from './running-signs.ts';
import type { Suspicion } from './suspicion.ts';
import { summaryOf } from './system-log.ts';
import type { TimesSeen } from './times.ts';

export interface ReportParts {
  readonly gathered: Gathered;
  readonly judged: Judged;
  readonly times: TimesSeen | null;
  readonly suspicion: Suspicion;
  readonly findings: readonly Finding[];
  readonly plan: Plan;
  readonly end: EndSeen;
}

/** The one document that the text, the page and `--json` show. */
export function reportOf(parts: ReportParts): Report {
  const { gathered, judged, suspicion } = parts;
  const { columns } = gathered;
  const present = gathered.folders.reduce((files, folder) => files + folder.files, 0);
  const verdictSum = Object.values(judged.counts).reduce((sum, count) => sum + count, 0);
  const missingSum = Object.values(judged.missing).reduce((sum, count) => sum + count, 0);
  assert(verdictSum === gathered.rows.count, 'the verdicts add up to the rows');
  assert(missingSum === judged.counts.missing, 'the reasons add up to the missing rows');
  return {
    schema: 'tidemark.report/1',
    folder: gathered.folder,
    assessedAt: iso(gathered.nowMs),
    level: gathered.level,
    levels: levelsOf(gathered),
    suspect: suspicion.ranges,
    layout: gathered.layout,
    dataset:
      gathered.dataset === null
        ? countedDataset(gathered)
        : { path: gathered.dataset.path, rows: gathered.dataset.table.rows, identity: gathered.dataset.table.root },
    told: gathered.told,
    run: gathered.ledger === null ? null : { id: gathered.ledger.runId, createdAt: gathered.ledger.createdAt },
    totals: {
      ...judged.counts,
      rows: gathered.rows.count,
      files: present,
      bytes: (gathered.placed?.byNumber ?? columns).bytes.reduce((sum, bytes) => sum + bytes, 0),
    },
    missing: judged.missing,
    verdicts: judged.groups,
    next: judged.next,
    frontiers: judged.frontiers,
    folders: folderAccounts(gathered, judged),
    extras: gathered.extras,
    running: runningOf(gathered),
    remembered: null,
    segments: (gathered.ledger?.segments ?? []).map(({ id, state }) => ({
      id,
      state,
      ranges: mergeRanges(gathered.ledger?.segmentRows.get(id) ?? []),
    })),
    crash: crashOf(parts),
    space: spaceOf(gathered),
    pace: parts.times?.pace ?? null,
    placement: gathered.placed === undefined ? null : placementOf(gathered.placed),
    findings: parts.findings,
    plan: parts.plan,
    digest: digestOf(gathered, judged),
  };
}

function countedDataset({ counted }: Gathered): Report['dataset'] {
  return counted === null ? null : { path: counted.path, rows: counted.rows, identity: null };
}

function levelsOf(gathered: Gathered): Report['levels'] {
  const { bytes, values } = depthRanges(gathered.columns);
  const levels: Report['levels'][number][] = [];
  if (!levelAtLeast(gathered.level, 'checksum') && bytes.length > 0) levels.push({ level: 'checksum', ranges: bytes });
  if (gathered.level !== 'content' && values.length > 0) levels.push({ level: 'content', ranges: values });
  return levels;
}

function folderAccounts(gathered: Gathered, judged: Judged): FolderAccount[] {
  return gathered.folders.map((folder) => {
    const counts = Object.fromEntries(VERDICT_KINDS.map((kind) => [kind, 0])) as Record<VerdictKind, number>;
    for (let row = folder.from; row < folder.to; row += 1) {
      const kind = VERDICT_KINDS[judged.kinds[row] ?? 0];
      if (kind !== undefined) counts[kind] += 1;
    }
    return { ...folder, counts };
  });
}

function runningOf(gathered: Gathered): Report['running'] {
  const [sign] = runningSigns(gathered);
  return sign === undefined ? null : { process: sign.process, host: sign.host, since: sign.since };
}

function crashOf(parts: ReportParts): Report['crash'] {
  const { gathered, judged, times, suspicion } = parts;
  if (judged.running || judged.next === 0) return null;
  const { bootedAt, bootId } = gathered.host;
  const start = gathered.ledger?.lastStart;
  const rebooted = start?.bootId != null && bootId.known && start.bootId !== bootId.value && start.hostname === gathered.host.hostname;
  let cause: Sourced<string> | null = null;
  const end = gathered.ledger?.lastEnd ?? null;
  if (end !== null) cause = { value: `the run ended ${end.outcome}: ${end.message}`, source: 'journal/run' };
  else if (gathered.ledger !== null && start != null) {
    cause = {
      value: rebooted ? 'the host rebooted while the run was alive' : 'the driver went away without a last word',
      source: rebooted ? 'boot id of the last start against the one now' : 'journal/run has a start and no end',
    };
  }
  const container = containerStart(gathered);
  if (end === null && parts.end.events.length > 0) {
    // What the kernel says is nearer to the cause than that the driver said nothing.
    const logs = [...new Set(parts.end.events.map((event) => event.source))].join(', ');
    const summary = summaryOf(parts.end.events);
    cause = cause === null ? { value: summary, source: logs } : { value: `${cause.value}; ${summary}`, source: `${cause.source}; ${logs}` };
  } else if (cause === null && container !== null && times !== null && Date.parse(container.value) > times.lastMs) {
    cause = { value: 'the container was started anew after the last write', source: container.source };
  }
  return {
    lastWrite: times === null ? null : { value: iso(times.lastMs), source: 'newest modification time of a sample file' },
    bootedAt: bootedAt.known ? { value: bootedAt.value, source: bootedAt.source } : null,
    cause,
    suspectWindow:
      suspicion.window === null
        ? null
        : { value: { from: iso(suspicion.window.fromMs), to: iso(suspicion.window.toMs) }, source: suspicion.window.source },
    containerStartedAt: container,
    logEvents: parts.end.events,
    logsNotRead: parts.end.notRead,
  };
}

/** The first process of a container starts with it; that of a machine within moments of the boot. */
const INIT_SLACK_MS = 120_000;

function containerStart(gathered: Gathered): Sourced<string> | null {
  const { initStartedAt, bootedAt } = gathered.host;
  if (initStartedAt === null || !initStartedAt.known || !bootedAt.known) return null;
  if (Date.parse(initStartedAt.value) - Date.parse(bootedAt.value) < INIT_SLACK_MS) return null;
  return { value: initStartedAt.value, source: `${initStartedAt.source}: process 1 started after the boot, as in a container` };
}

function spaceOf(gathered: Gathered): Report['space'] {
  const { space } = gathered.host;
  if (!space.known) return null;
  const { totalBytes, freeBytes } = space.value;
  return { value: { totalBytes, freeBytes }, source: space.source };
}

/** Only where every byte of every sound file was read: a digest over half-read files would prove what nobody checked. */
function digestOf(gathered: Gathered, judged: Judged): string | null {
  const { columns, dataset } = gathered;
  if (dataset === null || !levelAtLeast(gathered.level, 'checksum')) return null;
  const hash = createHash('sha256');
  const sound = VERDICT_KINDS.indexOf('sound');
  for (let row = 0; row < columns.rows; row += 1) {
    if (judged.kinds[row] !== sound) continue;
    const identity = dataset.table.at(row)?.identity ?? '-';
    hash.update(`${row} ${identity} ${columns.bytes[row]} ${(columns.crc32[row] ?? 0).toString(16).padStart(8, '0')}\n`);
  }
  return hash.digest('hex');
}

function iso(ms: number): string {
  return new Date(Math.round(ms)).toISOString();
}
