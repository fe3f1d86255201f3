const LEVEL = '(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERR(?:OR)?|CRIT(?:ICAL)?|FATAL|PANIC)';

/** How programs begin the lines of their logs. */
const FORMS: readonly RegExp[] = [
  /^\W{0,3}\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d/,
  /^\W{0,3}\d\d[-/]\d\d \d\d:\d\d:\d\d/,
  /^\W{0,3}\d\d:\d\d:\d\d\b/,
  /^[A-Z][a-z]{2}\s+\d{1,2} \d\d:\d\d:\d\d /,
  /^\[\s{0,12}\d{1,9}\.\d{1,9}\]/,
  /^[IWEF]\d{4} \d\d:\d\d:\d\d/,
  new RegExp(`^\\W{0,3}(?:\\w{1,20}[: ] ?)?${LEVEL}\\b`),
  /^Traceback \(most recent call last\):/,
  /^During handling of the above exception|^The above exception was the direct cause/,
  /^\s+File "[^"]{1,500}", line \d+/,
  /^[\w.]{0,120}(?:Error|Exception|Warning|Interrupt|Exit)\b(?::|$)/,
  /^\s+[\^~]+\s*$/,
  /^\s+at \S.{0,300}:\d+:\d+\)?$/,
  /^\s*(?:frame )?#\d+:? /,
  /^(?:Killed|Aborted|Segmentation fault|Bus error|Terminated|Out of memory|Floating point exception)\b/,
  // Progress bars, and drivers' own lines that begin with what they speak of.
  /\d{1,3}%\|.{0,200}\|\s*\d+\/\d+ /,
  /^\W{0,4}(?:\w{1,20}\W{1,3}){0,3}(?:rows?|samples?|index|idx|items?|batch(?:es)?|shards?)\W{0,3}(?:\d|\[)/i,
  /^\W{0,4}(?:\w{1,20} ){0,3}(?:data|hs|sample|row)_\d{1,12}\b/i,
];

/** What stands before the line's own beginning: `(EngineCore pid=7)`, `[rank0]:`, `worker-3 |`. */
const PREFIX = /^(?:\([\w ./=:-]{1,60}\)|\[[\w ./=:-]{1,40}\]:?|[\w.-]{1,40} \|)\s?/;
const FILE_LINE = /^\s+File "[^"]{1,500}", line \d+/;
const LOG_KEYS = ['level', 'levelname', 'severity', 'lvl', 'time', 'timestamp', 'ts', '@timestamp', 'logger'];

export type LogLine =
  | { readonly form: 'text' }
  /** One JSON object, with the keys of a log and not of a row. */
  | { readonly form: 'json'; readonly value: Readonly<Record<string, unknown>> }
  /** Anything at all: printed text, a row, the rest of a sentence. */
  | { readonly form: 'other' };

/**
 * Whether a line has a log's form. What has not may be anything that a driver printed, a prompt among it, so it does not go into a slice.
 * @param before the line before it: behind a traceback's `File` line stands code
 */
export function formOfLine(line: string, before: string): LogLine {
  const bare = withoutPrefix(line);
  if (bare.startsWith('{')) {
    const value = objectOrNull(bare);
    return value !== null && LOG_KEYS.some((key) => key in value) ? { form: 'json', value } : { form: 'other' };
  }
  if (FORMS.some((form) => form.test(bare) || form.test(line))) return { form: 'text' };
  return FILE_LINE.test(withoutPrefix(before)) && /^\s{2,}\S/.test(bare) ? { form: 'text' } : { form: 'other' };
}

function withoutPrefix(line: string): string {
  let bare = line;
  for (let times = 0; times < 3 && PREFIX.test(bare); times += 1) bare = bare.replace(PREFIX, '');
  return bare;
}

function objectOrNull(text: string): Readonly<Record<string, unknown>> | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Readonly<Record<string, unknown>>) : null;
  } catch {
    return null;
  }
}

/** Without what a terminal would obey and what cannot be seen: a mark inside a key would hide it from every search. */
export function plainLine(line: string): string {
  return line
    .replace(ESCAPES, '')
    .replace(/[\p{Cf}\u2028\u2029]/gu, '')
    .replace(/\t/g, '    ')
    .replace(/\p{Cc}/gu, '');
}

const ESCAPE = String.fromCharCode(0x1b);
const BELL = String.fromCharCode(0x07);
const ESCAPES = new RegExp(`${ESCAPE}(?:\\[[0-9;?]*[ -/]*[@-~]|\\][^${BELL}${ESCAPE}]*(?:${BELL}|${ESCAPE}\\\\)?|[@-Z\\\\^_])`, 'g');
