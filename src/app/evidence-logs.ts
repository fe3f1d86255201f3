import { gatherSystemLog } from '../assess/gather-system-log.ts';
import { speaksOfTrouble } from '../assess/log-errors.ts';
import { kindOfLine } from '../assess/system-log.ts';
import { formOfLine, plainLine } from '../core/log-form.ts';
import { type LogSliceResult, LogSlicer, type SlicedLine } from '../core/log-slice.ts';
import type { FileReader, ReadableFile } from '../host/host.ts';
import { EVIDENCE_BOUNDS } from './evidence-bounds.ts';
import type { EvidenceLine, GatheredPart } from './evidence-member.ts';
import { type EvidenceReader, tryRead } from './evidence-read.ts';

const PIECE_BYTES = 1024 * 1024;

/** The lines of the machine's own logs that an assessment looks at: storage and memory. */
export async function gatherSystemLines(reader: EvidenceReader, folder?: string): Promise<GatheredPart> {
  const { events, notRead } = await gatherSystemLog(reader.files, reader.guard, folder);
  const kept = events.slice(-EVIDENCE_BOUNDS.systemLogLines);
  return {
    members: [
      {
        name: 'logs/system.txt',
        source: 'lines about storage and memory in the last 2 MiB of each plain log of the machine',
        content: {
          kind: 'lines',
          lines: kept.map(({ source, kind, text }) => ({ before: `${source} [${kind}] `, value: plainLine(text), origin: 'foreign' })),
          lineCharacters: EVIDENCE_BOUNDS.logLineCharacters,
        },
        leftOut: kept.length < events.length ? [`${events.length - kept.length} older lines`] : [],
      },
    ],
    unknown: notRead.map(({ path, why }) => ({ what: path, why })),
  };
}

/** Slices of a log that a person gave: around lines of trouble, and the end. */
export async function gatherGivenLog(reader: EvidenceReader, path: string): Promise<GatheredPart> {
  const { logHeadBytes, logTailBytes } = EVIDENCE_BOUNDS;
  const read = await tryRead(reader, `opening ${path}`, () => reader.files.open(path));
  if (!read.ok || read.value === null)
    return { members: [], unknown: [{ what: 'logs/given.txt', why: read.ok ? `there is no ${path}` : read.why }] };
  const file = read.value;
  const leftOut: string[] = [];
  const lines: EvidenceLine[] = [];
  try {
    const whole = file.size <= logHeadBytes + logTailBytes;
    const head = await tryRead(reader, `reading ${path}`, () => slice(file, 0, whole ? file.size : logHeadBytes, true), 600_000);
    const tail = whole
      ? null
      : await tryRead(reader, `reading ${path}`, () => slice(file, file.size - logTailBytes, file.size, false), 600_000);
    if (!head.ok) return { members: [], unknown: [{ what: 'logs/given.txt', why: head.why }] };
    if (tail !== null && !tail.ok) return { members: [], unknown: [{ what: 'logs/given.txt', why: tail.why }] };
    if (tail === null) lines.push(...rendered(head.value, ''));
    else {
      leftOut.push(`${file.size - logHeadBytes - logTailBytes} bytes in the middle were not read`);
      lines.push(
        ...rendered(head.value, ''),
        `--- from byte ${file.size - logTailBytes}, lines counted from there`,
        ...rendered(tail.value, '+'),
      );
    }
    leftOut.push(...(tail === null ? [head.value] : [head.value, tail.value]).map(summary));
  } finally {
    await file.close();
  }
  return {
    members: [
      {
        name: 'logs/given.txt',
        source: path,
        content: { kind: 'lines', lines, lineCharacters: EVIDENCE_BOUNDS.logLineCharacters },
        leftOut,
      },
    ],
    unknown: [],
  };
}

function summary({ lines, lineCount, troubleCount }: LogSliceResult): string {
  return `of ${lineCount} lines, ${troubleCount} of them of trouble, ${lines.length} were looked at; those without a log's form are counted where they stood`;
}

async function slice(file: ReadableFile, from: number, to: number, whole: boolean): Promise<LogSliceResult> {
  const slicer = new LogSlicer({
    isTrouble: (line) => speaksOfTrouble(line) || kindOfLine(line) !== null,
    beside: EVIDENCE_BOUNDS.logBeside,
    first: whole ? EVIDENCE_BOUNDS.logTroubleFirst : 0,
    last: EVIDENCE_BOUNDS.logTroubleLast,
    tail: EVIDENCE_BOUNDS.logLastLines,
  });
  const decoder = new TextDecoder('utf-8');
  for (let at = from; at < to; at += PIECE_BYTES) {
    let text = decoder.decode(await file.read(at, Math.min(PIECE_BYTES, to - at)), { stream: true });
    // Its first line is half a line.
    if (at === from && from > 0) text = text.slice(text.indexOf('\n') + 1);
    slicer.push(text);
  }
  slicer.push(decoder.decode());
  return slicer.end();
}

/** What has not a log's form may be anything that was printed, a prompt among it: it is counted and left out. */
function rendered({ lines }: LogSliceResult, mark: string): EvidenceLine[] {
  const result: EvidenceLine[] = [];
  let last: SlicedLine | null = null;
  let hidden = { lines: 0, characters: 0 };
  const tellHidden = (): void => {
    if (hidden.lines > 0) result.push(`(${hidden.lines} lines, ${hidden.characters} characters, left out: not in a log's form)`);
    hidden = { lines: 0, characters: 0 };
  };
  for (const line of lines) {
    const follows = last !== null && last.number === line.number - 1;
    const form = formOfLine(line.text, follows && last !== null ? last.text : '');
    if (!follows && last !== null) {
      tellHidden();
      result.push('---');
    }
    last = line;
    if (form.form === 'other') {
      hidden = { lines: hidden.lines + 1, characters: hidden.characters + line.text.length };
      continue;
    }
    tellHidden();
    const before = `${mark}${line.number}: `;
    result.push(form.form === 'json' ? { before, value: form.value, origin: 'foreign' } : { before, value: line.text, origin: 'foreign' });
  }
  tellHidden();
  return result;
}

/** The file that a name stands for; a person named it, so a link is followed. */
export async function realLog(files: FileReader, path: string): Promise<string> {
  return (await files.realPath(path)) ?? path;
}
