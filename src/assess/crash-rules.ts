import type { Finding, Remedy } from '../core/finding.ts';
import type { LogEvent, Pace } from '../core/report.ts';
import { counted, formatCount, formatSeconds } from '../core/units.ts';
import { command, type FindingContext, finding } from './findings.ts';
import { summaryOf } from './system-log.ts';

/** What the machine's logs say around the end of the run. */
export interface EndSeen {
  readonly events: readonly LogEvent[];
  readonly notRead: readonly { readonly path: string; readonly why: string }[];
}

export interface CrashContext extends FindingContext {
  readonly end: EndSeen;
  readonly pace: Pace | null;
}

/** The crash itself: who hangs, what the kernel said, and when the run stood still. */
export function crashFindings(context: CrashContext): Finding[] {
  return [...blocked(context), ...kernel(context), ...stalls(context)];
}

function blocked(context: CrashContext): Finding[] {
  const { blocked: seen, host } = context.gathered;
  if (seen === null || !seen.known || seen.value.length === 0) return [];
  const named = seen.value
    .slice(0, 4)
    .map(
      (one) =>
        `pid ${one.pid} (${one.command}) has ${one.path === '' ? 'the folder' : one.path} open${one.waitsIn === null ? '' : ` and waits in ${one.waitsIn}`}`,
    );
  const more = seen.value.length > 4 ? `; and ${seen.value.length - 4} more` : '';
  const mount = host.mount.known ? ` at ${host.mount.value.mountPoint} (${host.mount.value.filesystem})` : '';
  const remedy: Remedy = {
    text: 'SIGKILL does nothing to them; mend the storage under the mount, or reboot. They may still write when it comes back',
    kind: 'decision',
    commands: [
      [
        'ps',
        '-o',
        'pid,stat,wchan:32,lstart,args',
        '-p',
        seen.value
          .slice(0, 16)
          .map((one) => String(one.pid))
          .join(','),
      ],
    ],
  };
  const count = seen.value.length;
  const title = `${counted(count, 'process hangs', 'processes hang')} in uninterruptible I/O on this folder${mount}`;
  return [finding('TM-H15', 'warning', title, `${seen.source}, two looks: ${named.join('; ')}${more}`, remedy)];
}

function kernel(context: CrashContext): Finding[] {
  const { events, notRead } = context.end;
  if (events.length === 0) return [];
  const lines = events.slice(0, 3).map((event) => `${event.source}: ${event.text}`);
  const unread = notRead.length === 0 ? '' : `; not read: ${notRead.map((log) => log.path).join(', ')}`;
  const remedy: Remedy = {
    text: 'see to it before the run goes on; the rest of the log is in the journal, if this machine keeps one',
    kind: 'decision',
    commands: [['journalctl', '-k', '-b', '-1', '--no-pager', '-n', '200']],
  };
  return [finding('TM-H16', 'warning', `around the end of the run ${summaryOf(events)}`, `${lines.join('; ')}${unread}`, remedy)];
}

/** A pause shorter than this is a restart; a longer one cost something. */
const STALL_TOLD_SECONDS = 600;

function stalls(context: CrashContext): Finding[] {
  const { pace } = context;
  const [longest] = pace?.stalls ?? [];
  if (pace === null || longest === undefined || pace.stalledSeconds < STALL_TOLD_SECONDS) return [];
  const named = pace.stalls
    .slice(0, 4)
    .map((stall) => `${stall.from} for ${formatSeconds((Date.parse(stall.to) - Date.parse(stall.from)) / 1000)}`);
  const title = `the run stood still ${pace.stallCount === 1 ? 'once' : `${formatCount(pace.stallCount)} times`}, ${formatSeconds(pace.stalledSeconds)} in all`;
  const remedy: Remedy = {
    text: 'the plateau\u2019s rate leaves these out, the whole run\u2019s does not',
    kind: 'decision',
    commands: [command(context, 'assess', '--json')],
  };
  return [finding('TM-H17', 'info', title, `${pace.source}: the longest from ${named.join(', from ')}`, remedy)];
}
