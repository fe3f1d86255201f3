import type { LogEvent } from '../core/report.ts';
import { counted } from '../core/units.ts';

/** What the kernel and its neighbours write when storage or memory gives out; the first pattern that fits names the line. */
const KINDS: readonly { readonly kind: LogEvent['kind']; readonly pattern: RegExp }[] = [
  { kind: 'out-of-memory', pattern: /out of memory|oom-kill|oom_reaper|invoked oom-killer|memory cgroup out of memory/i },
  {
    kind: 'no-space',
    pattern: /no space left on device|\benospc\b|quota exceeded|thin pool.*(full|out of (data|metadata) space)|pool .* (is )?full/i,
  },
  { kind: 'blocked-task', pattern: /blocked for more than \d+ seconds|hung_task|task .* blocked/i },
  {
    kind: 'network-storage',
    pattern: /\b(nfs|ceph|libceph|rbd|cifs|fuse)\b.*(not responding|timed out|connection (lost|abort|reset)|still trying|no reply|hung)/i,
  },
  {
    kind: 'io-error',
    pattern:
      /\bi\/o error\b|critical (medium|target|space allocation) error|blk_update_request|unrecovered read error|nvme.*(timeout|abort|controller is down|resetting)|ata\d.*(failed command|exception)|device offline|rejecting i\/o/i,
  },
  {
    kind: 'filesystem',
    pattern:
      /ext4-fs.*(error|warning)|xfs.*(shutdown|corruption|error)|btrfs.*(error|critical)|zfs.*(fault|suspended|error)|remounting filesystem read-only|journal has aborted|delayed allocation failed/i,
  },
];

/** Lines longer than this are cut: a log may hold anything. */
const LINE_MOST = 400;
/** A line of the log's own clock that lies this far ahead of the file's last write belongs to the year before. */
const AHEAD_MOST_MS = 48 * 3_600_000;

export interface LogSlice {
  readonly path: string;
  readonly text: string;
  /** When the file was last written: classic syslog lines have no year. */
  readonly modifiedMs: number;
}

/** What a line says of storage or memory, or null. */
export function kindOfLine(line: string): LogEvent['kind'] | null {
  return KINDS.find(({ pattern }) => pattern.test(line.slice(0, 4 * LINE_MOST)))?.kind ?? null;
}

/** Lines that speak of trouble, in the order of the file. */
export function eventsIn(slice: LogSlice): LogEvent[] {
  const events: LogEvent[] = [];
  for (const line of slice.text.split('\n')) {
    const kind = kindOfLine(line);
    if (kind === null) continue;
    const ms = timeOfLine(line, slice.modifiedMs);
    events.push({
      at: ms === null ? null : new Date(ms).toISOString(),
      kind,
      text: line.trim().slice(0, LINE_MOST),
      source: slice.path,
    });
  }
  return events;
}

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

/** `2026-03-14T02:10:00.123456+01:00 host …` or `Mar 14 02:10:00 host …`, the latter in the machine's own time zone. */
export function timeOfLine(line: string, modifiedMs: number): number | null {
  const iso = /^(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2}:\d{2})(?:[.,](\d{1,9}))?\s?(Z|[+-]\d{2}:?\d{2})?/.exec(line);
  if (iso !== null) {
    const [, date, time, fraction = '0', zone = ''] = iso;
    const ms = Date.parse(`${date}T${time}.${fraction.padEnd(3, '0').slice(0, 3)}${zone.replace(/^([+-]\d{2})(\d{2})$/, '$1:$2')}`);
    return Number.isNaN(ms) ? null : ms;
  }
  const classic = /^([A-Z][a-z]{2})\s+(\d{1,2}) (\d{2}):(\d{2}):(\d{2})/.exec(line);
  if (classic === null) return null;
  const month = MONTHS.indexOf(classic[1] ?? '');
  if (month < 0) return null;
  const [day, hour, minute, second] = classic.slice(2, 6).map(Number);
  const year = new Date(modifiedMs).getFullYear();
  const at = (inYear: number): number => new Date(inYear, month, day ?? 1, hour ?? 0, minute ?? 0, second ?? 0).getTime();
  return at(year) > modifiedMs + AHEAD_MOST_MS ? at(year - 1) : at(year);
}

/** Before the last write, for the slow death that ends in it; behind it, for what the kernel says of it later. */
const BEFORE_MS = 6 * 3_600_000;
const BEHIND_MS = 2 * 3_600_000;
const EVENTS_MOST = 200;

/** The events around the end of a run, oldest first; those without a time are left out, because they may be of any day. */
export function eventsAround(events: readonly LogEvent[], lastWriteMs: number, bootedAtMs: number | null): LogEvent[] {
  const until = Math.max(
    lastWriteMs + BEHIND_MS,
    bootedAtMs !== null && bootedAtMs > lastWriteMs ? Math.min(bootedAtMs, lastWriteMs + 7 * 86_400_000) : 0,
  );
  const seen = new Set<string>();
  return events
    .filter((event) => event.at !== null && Date.parse(event.at) >= lastWriteMs - BEFORE_MS && Date.parse(event.at) <= until)
    .filter((event) => {
      // kern.log and syslog hold the same lines.
      const key = `${event.at} ${event.text}`;
      if (seen.has(key)) return false;
      seen.add(key);
      return true;
    })
    .sort((a, b) => Date.parse(a.at ?? '') - Date.parse(b.at ?? ''))
    .slice(0, EVENTS_MOST);
}

const WORDS: Readonly<Record<LogEvent['kind'], string>> = {
  'out-of-memory': 'the kernel killed for lack of memory',
  'no-space': 'no space was left on a device',
  'blocked-task': 'tasks were blocked on storage',
  'network-storage': 'network storage did not answer',
  'io-error': 'the kernel reported I/O errors',
  filesystem: 'a filesystem reported errors',
};

/** The kinds that were seen, in words, with how often and since when. */
export function summaryOf(events: readonly LogEvent[]): string {
  const kinds = [...new Set(events.map((event) => event.kind))];
  return kinds
    .map((kind) => {
      const of = events.filter((event) => event.kind === kind);
      return `${WORDS[kind]} (${counted(of.length, 'line')} from ${of[0]?.at ?? 'an unknown time'})`;
    })
    .join('; ');
}
