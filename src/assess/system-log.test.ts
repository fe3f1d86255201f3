import { describe, expect, it } from 'vitest';
import { eventsAround, eventsIn, summaryOf, timeOfLine } from './system-log.ts';

const MODIFIED = Date.UTC(2026, 2, 15, 6);

describe('the machine\u2019s logs', () => {
  it('knows trouble with storage and memory in the kernel\u2019s words', () => {
    const lines = [
      '2026-03-14T04:00:01.000000+00:00 box kernel: [1.0] blk_update_request: I/O error, dev vdb, sector 2048 op 0x1:(WRITE)',
      '2026-03-14T04:00:02+00:00 box kernel: EXT4-fs error (device vdb): ext4_journal_check_start:83: Detected aborted journal',
      '2026-03-14T04:00:03Z box kernel: INFO: task python:1234 blocked for more than 120 seconds.',
      '2026-03-14T04:00:04Z box kernel: Out of memory: Killed process 77 (VLLM::EngineCore)',
      '2026-03-14T04:00:05Z box app[1]: OSError: [Errno 28] No space left on device',
      '2026-03-14T04:00:06Z box kernel: nfs: server nas not responding, still trying',
      '2026-03-14T04:00:07Z box kernel: eth0: link up',
      'nvme nvme0: I/O 12 QID 3 timeout, aborting',
    ];
    const events = eventsIn({ path: '/var/log/kern.log', text: lines.join('\n'), modifiedMs: MODIFIED });
    expect(events.map((event) => event.kind)).toEqual([
      'io-error',
      'filesystem',
      'blocked-task',
      'out-of-memory',
      'no-space',
      'network-storage',
      'io-error',
    ]);
    expect(events.map((event) => event.at)).toEqual([...[1, 2, 3, 4, 5, 6].map((second) => `2026-03-14T04:00:0${second}.000Z`), null]);
  });

  it('reads times without a year by when the log was last written', () => {
    const at = (line: string, modified: number): number | undefined => new Date(timeOfLine(line, modified) ?? 0).getFullYear();
    expect(at('Mar 14 04:00:01 box kernel: x', MODIFIED)).toBe(2026);
    expect(at('Dec 31 23:59:59 box kernel: x', Date.UTC(2026, 0, 2))).toBe(2025);
    expect(timeOfLine('Mar 14 04:00:01 box kernel: x', MODIFIED)).toBe(new Date(2026, 2, 14, 4, 0, 1).getTime());
    expect(timeOfLine('2026-03-14T04:00:01.5+0100 box', MODIFIED)).toBe(Date.UTC(2026, 2, 14, 3, 0, 1, 500));
    expect(timeOfLine('[    1.234567] nvme', MODIFIED)).toBeNull();
  });

  it('keeps what lies around the end, once', () => {
    const line = (at: string): string => `${at} box kernel: I/O error, dev vdb`;
    const text = [
      line('2026-03-13T01:00:00Z'),
      line('2026-03-14T03:59:00Z'),
      line('2026-03-14T03:59:00Z'),
      line('2026-03-15T01:00:00Z'),
    ].join('\n');
    const events = eventsIn({ path: '/var/log/syslog', text, modifiedMs: MODIFIED });
    const near = eventsAround(events, Date.UTC(2026, 2, 14, 4), Date.UTC(2026, 2, 14, 4, 41));
    expect(near.map((event) => event.at)).toEqual(['2026-03-14T03:59:00.000Z']);
    expect(summaryOf(near)).toBe('the kernel reported I/O errors (1 line from 2026-03-14T03:59:00.000Z)');
  });
});
