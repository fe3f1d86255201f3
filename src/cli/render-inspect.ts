import type { InspectedTensor, InspectedValues, Inspection } from '../app/inspect.ts';
import { shellLine, visible } from '../core/shell-line.ts';
import { counted, formatBytes, formatCount, plural } from '../core/units.ts';
import type { Colors } from './render-report.ts';
import { wrapped } from './render-words.ts';

const same = (text: string): string => text;
const PLAIN: Colors = { bold: same, dim: same, red: same, yellow: same, green: same, cyan: same };
const WIDTH = 100;
/** A hostile file may name a hundred thousand things; `--json` lists them all. */
const LINES_MAX = 100;
const NAME_MAX = 60;
const VALUE_MAX = 120;

const FORMS: Readonly<Record<Inspection['form'], string>> = {
  'torch-zip': 'torch zip',
  'torch-legacy': "torch's old format",
  safetensors: 'safetensors',
  gzip: 'gzip-wrapped torch zip',
  unknown: 'unknown',
};

/** The verdict first, evidence next, the command last. */
export function renderInspection(inspection: Inspection, colors: Colors = PLAIN): string {
  const { verdict, writer, archive } = inspection;
  const paint = verdict.kind === 'sound' ? colors.green : verdict.kind === 'refused' ? colors.yellow : colors.red;
  const facts = [FORMS[inspection.form], formatBytes(inspection.bytes), `modified ${inspection.modifiedAt.slice(0, 19)}Z`];
  if (writer !== null) facts.push(`written by ${name(writer.guess)} (told by ${writer.source})`);
  if (archive !== null) facts.push(`saved as ${name(archive)}`);
  const lines = [
    `${colors.bold(paint(verdict.kind))} (${verdict.reason})  ${visible(inspection.path)}`,
    ...(verdict.detail === null ? [] : indented(visible(verdict.detail), '  ')),
    ...indented(facts.join(', '), '  '),
    ...tensorLines(inspection, colors),
    ...valueLines(inspection, colors),
    ...recordLines(inspection, colors),
    ...identityLines(inspection, colors),
    '',
    ...inspection.proved.flatMap((text) => labelled('proved', colors.green, text)),
    ...inspection.notProved.flatMap((text) => labelled('not proved', colors.yellow, text)),
  ];
  const next = nextOf(inspection);
  if (next !== null) lines.push('', `next: ${shellLine(next)}`);
  return `${lines.join('\n')}\n`;
}

/** Deeper, while there is something deeper to see. */
function nextOf({ path, level, verdict, form }: Inspection): readonly string[] | null {
  if (verdict.kind !== 'sound' || level === 'content') return null;
  const further = level === 'checksum' || form === 'safetensors' ? 'content' : 'checksum';
  return ['tidemark', 'inspect', path, '--level', further];
}

function labelled(label: string, paint: (text: string) => string, text: string): string[] {
  const [first = '', ...rest] = wrapped(visible(text), WIDTH);
  return [`  ${paint(label.padEnd(10))}  ${first}`, ...rest.map((line) => `${' '.repeat(14)}${line}`)];
}

function indented(text: string, by: string): string[] {
  return wrapped(text, WIDTH).map((line) => by + line);
}

/** A name out of a file: shown, not obeyed, and not longer than a line. */
function name(text: string, most = NAME_MAX): string {
  const shown = visible(text);
  return shown.length > most ? `${shown.slice(0, most - 1)}…` : shown;
}

/** Columns as wide as they need to be. */
function table(rows: readonly (readonly string[])[], right: readonly number[]): string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => (row[column] ?? '').length)));
  return rows.map((row) =>
    `  ${row.map((cell, column) => (right.includes(column) ? cell.padStart(widths[column] ?? 0) : cell.padEnd(widths[column] ?? 0))).join('  ')}`.trimEnd(),
  );
}

function headed(title: string, rows: readonly (readonly string[])[], count: number, right: readonly number[], colors: Colors): string[] {
  if (count === 0) return [];
  const [head = '', ...lines] = table(rows, right);
  const more = count > LINES_MAX ? [`  and ${formatCount(count - LINES_MAX)} more; --json lists them all`] : [];
  return ['', `${title} (${formatCount(count)})`, colors.dim(head), ...lines, ...more];
}

function tensorLines({ tensors, form }: Inspection, colors: Colors): string[] {
  const rows = tensors
    .slice(0, LINES_MAX)
    .map((tensor) => [
      name(tensor.name === '' ? '(the whole object)' : tensor.name),
      tensor.dtype,
      `[${name(tensor.shape.join(', '))}]`,
      tensor.contiguous ? 'row-major' : `stride [${name(tensor.stride.join(', '))}]`,
      form === 'safetensors' ? `at ${tensor.offset}` : name(tensor.record ?? ''),
      formatBytes(tensor.bytes),
    ]);
  const head = ['tensor', 'dtype', 'shape', 'layout', form === 'safetensors' ? 'place' : 'storage', 'size'];
  const shared = sharedLines(tensors);
  return [...headed('tensors', [head, ...rows], tensors.length, [5], colors), ...shared, ...summaryLines(tensors, colors)];
}

function sharedLines(tensors: readonly InspectedTensor[]): string[] {
  const holders = new Map<string, string[]>();
  for (const { record, name: tensor } of tensors) if (record !== null) holders.set(record, [...(holders.get(record) ?? []), tensor]);
  return [...holders]
    .filter(([, names]) => names.length > 1)
    .slice(0, LINES_MAX)
    .flatMap(([record, names]) =>
      indented(
        `${name(record)} is shared by ${names
          .slice(0, 8)
          .map((one) => name(one))
          .join(', ')}${names.length > 8 ? ` and ${names.length - 8} more` : ''}`,
        '  ',
      ),
    );
}

function summaryLines(tensors: readonly InspectedTensor[], colors: Colors): string[] {
  const read = tensors.filter((tensor) => tensor.values !== null || tensor.unread !== null);
  const rows = read
    .slice(0, LINES_MAX)
    .map(({ name: tensor, values, unread }) =>
      values === null
        ? [name(tensor), unread ?? '', '', '', '', '']
        : [name(tensor), number(values.min), number(values.max), number(values.rms), formatCount(values.zeros), badOf(values)],
    );
  return headed('values', [['tensor', 'min', 'max', 'rms', 'zeros', 'bad'], ...rows], read.length, [1, 2, 3, 4], colors);
}

function badOf(values: InspectedValues): string {
  const parts: string[] = [];
  if (values.nan > 0) parts.push(`${formatCount(values.nan)} NaN`);
  if (values.inf > 0) parts.push(`${counted(values.inf, 'infinity', 'infinities')}`);
  if (values.rows !== null && values.zeroRows !== null && values.zeroRows > 0) {
    const end = (values.zeroRowsAtEnd ?? 0) > 0 ? `, ${formatCount(values.zeroRowsAtEnd ?? 0)} of them at the end` : '';
    parts.push(
      `${formatCount(values.zeroRows)} of ${counted(values.rows, 'row')} ${plural(values.zeroRows, 'is', 'are')} zero, first ${values.firstZeroRow}${end}`,
    );
  }
  const page = values.zeroPages[0];
  if (page !== undefined) parts.push(`zero pages from byte ${page[0]}`);
  return parts.join('; ') || 'none';
}

function number(value: number | null): string {
  if (value === null) return '-';
  return Number.isInteger(value) && Math.abs(value) < 1e9 ? String(value) : value.toPrecision(4);
}

function valueLines({ values, metadata }: Inspection, colors: Colors): string[] {
  const plain = [
    ...values.map(({ name: key, value }) => [key, JSON.stringify(value) ?? ''] as const),
    ...metadata.map(({ name: key, value }) => [key, JSON.stringify(value)] as const),
  ];
  const rows = plain.slice(0, LINES_MAX).map(([key, value]) => [name(key), name(value, VALUE_MAX)]);
  return headed('other values', [['name', 'value'], ...rows], plain.length, [], colors);
}

function recordLines({ records }: Inspection, colors: Colors): string[] {
  const rows = records
    .slice(0, LINES_MAX)
    .map(({ name: record, bytes, stored, computed }) => [
      name(record),
      formatBytes(bytes),
      stored ?? 'none',
      computed ?? 'not read',
      stored === null || computed === null ? '' : stored === computed ? 'same' : 'DIFFERS',
    ]);
  return headed('records', [['record', 'size', 'stored CRC', 'computed', ''], ...rows], records.length, [1], colors);
}

function identityLines({ identity, crc32 }: Inspection, colors: Colors): string[] {
  const lines: string[] = [];
  if (identity !== null) {
    const padded =
      identity.stripped !== null && identity.stripped.tokens < identity.tokens
        ? `; ${identity.stripped.identity} for its ${counted(identity.stripped.tokens, 'token')} without right padding`
        : '';
    lines.push(...indented(`${identity.tensor}: ${counted(identity.tokens, 'token')}, identity ${identity.identity}${padded}`, '  '));
  }
  if (crc32 !== null) lines.push(`  CRC-32 of the whole file: ${crc32}`);
  return lines.length === 0 ? [] : ['', colors.dim('sums'), ...lines];
}
