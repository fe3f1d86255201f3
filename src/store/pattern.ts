import { TidemarkError } from '../core/errors.ts';

/** `index`, `from`, `to`, `rank` are numbers; `dir` and `id` any text without `/`. */
export type Field = 'index' | 'from' | 'to' | 'rank' | 'dir' | 'id';
const FIELDS: readonly Field[] = ['index', 'from', 'to', 'rank', 'dir', 'id'];
const NUMBERS: readonly Field[] = ['index', 'from', 'to', 'rank'];

export type PatternFields = { readonly [K in Field]?: string };

/** A path with holes, relative to the run folder: `rows_{from}-{to}/data_{index:06d}.pt`. */
export interface Pattern {
  readonly text: string;
  readonly fields: ReadonlySet<Field>;
  /** Folders above the file. */
  readonly depth: number;
  /** Whether a file's path is of this form: cheaper than its fields. */
  fits(path: string): boolean;
  /** The fields of a file's path, or null when it is of another form. */
  match(path: string): PatternFields | null;
  /** Whether a folder may hold such files, or folders with them. */
  matchFolder(path: string): PatternFields | null;
  /** The path with the fields filled in; a field that is not given stays `*`. */
  render(values: PatternValues): string;
  renderFolder(values: PatternValues): string;
}

type PatternValues = { readonly [K in Field]?: number | string };

type Part = string | { readonly field: Field; readonly digits: number };

const TEXT_BYTES_MAX = 255;
const DEPTH_MAX = 6;
const DIGITS_MAX = 15;

/**
 * Reads a pattern strictly: one `{index}` or `{id}`, each placeholder once, something between two of them.
 * @throws TidemarkError `usage` that says what is wrong and where
 */
export function parsePattern(text: string): Pattern {
  if (text.length > TEXT_BYTES_MAX) throw wrong(text, `it is longer than ${TEXT_BYTES_MAX} characters`);
  const segments = text.split('/');
  if (segments.some((segment) => segment === '' || segment === '.' || segment === '..')) {
    throw wrong(text, 'it must be relative to the folder, without empty parts, . or ..');
  }
  if (segments.length > DEPTH_MAX) throw wrong(text, `it is deeper than ${DEPTH_MAX} parts`);
  if (segments.some((segment) => segment.startsWith('.'))) throw wrong(text, 'a part that begins with a dot is not read');
  const fields = new Set<Field>();
  const parts = segments.map((segment) => partsOf(text, segment, fields));
  if (!fields.has('index') && !fields.has('id')) throw wrong(text, 'it needs {index}, or {id} where names are no numbers');
  const last = parts.at(-1) ?? [];
  if (!last.some((part) => typeof part !== 'string' && (part.field === 'index' || part.field === 'id'))) {
    throw wrong(text, 'the last part must hold {index} or {id}: there is one file a sample');
  }
  if (fields.has('to') && !fields.has('from')) throw wrong(text, '{to} needs {from}');
  if (!/\.[A-Za-z][A-Za-z0-9]*$/.test(text)) throw wrong(text, 'it must end in an extension, such as .pt, .ckpt.gz or .safetensors');
  return patternOf(text, parts, fields);
}

function wrong(text: string, why: string): TidemarkError {
  return new TidemarkError('usage', `the layout pattern ${JSON.stringify(text)} cannot be used: ${why}`, {
    hint: "for example --layout 'part-{dir}/{index:06d}.pt'; placeholders: {index} {index:06d} {from} {to} {dir} {rank} {id}",
  });
}

function partsOf(text: string, segment: string, seen: Set<Field>): Part[] {
  const parts: Part[] = [];
  let rest = segment;
  while (rest !== '') {
    const brace = rest.search(/[{}]/);
    const literal = brace < 0 ? rest : rest.slice(0, brace);
    if (literal !== '') parts.push(literal);
    rest = rest.slice(literal.length);
    if (rest === '') break;
    const match = /^\{([^{}]*)\}/.exec(rest);
    if (match?.[1] === undefined) throw wrong(text, `a brace stands alone at ${JSON.stringify(rest)}`);
    if (typeof parts.at(-1) === 'object') throw wrong(text, `nothing stands between two placeholders, before ${match[0]}`);
    parts.push(placeholder(text, match[1], seen));
    rest = rest.slice(match[0].length);
  }
  return parts;
}

function placeholder(text: string, inside: string, seen: Set<Field>): Part {
  const [name = '', format, ...more] = inside.split(':');
  const field = FIELDS.find((known) => known === name);
  if (field === undefined) throw wrong(text, `there is no placeholder {${inside}}`);
  if (seen.has(field)) throw wrong(text, `{${field}} stands in it twice`);
  seen.add(field);
  if (format === undefined) return { field, digits: 0 };
  const digits = Number(/^0([1-9]\d?)d$/.exec(format)?.[1] ?? 0);
  if (more.length > 0 || digits === 0 || digits > DIGITS_MAX)
    throw wrong(text, `{${inside}} is no format; one is {${field}:06d}, up to 0${DIGITS_MAX}d`);
  if (!NUMBERS.includes(field)) throw wrong(text, `{${field}} is text and takes no format`);
  return { field, digits };
}

function patternOf(text: string, parts: readonly (readonly Part[])[], fields: ReadonlySet<Field>): Pattern {
  const depth = parts.length - 1;
  const file = expressionOf(parts);
  // A folder on the way down is matched as far as it reaches.
  const folders = parts.slice(0, -1).map((_, at) => expressionOf(parts.slice(0, at + 1)));
  const matched = (expression: RegExp | undefined, path: string): PatternFields | null => {
    const groups = expression?.exec(path);
    return groups == null ? null : { ...groups.groups };
  };
  const render = (count: number, values: PatternValues): string =>
    parts
      .slice(0, count)
      .map((segment) => segment.map((part) => filled(part, values)).join(''))
      .join('/');
  return {
    text,
    fields,
    depth,
    fits: (path) => file.test(path),
    match: (path) => matched(file, path),
    matchFolder: (path) => matched(folders[path.split('/').length - 1], path),
    render: (values) => render(parts.length, values),
    renderFolder: (values) => render(depth, values),
  };
}

function filled(part: Part, values: PatternValues): string {
  if (typeof part === 'string') return part;
  const value = values[part.field];
  return value === undefined ? '*' : String(value).padStart(part.digits, '0');
}

function expressionOf(parts: readonly (readonly Part[])[]): RegExp {
  const segments = parts.map((segment) => segment.map((part) => (typeof part === 'string' ? escaped(part) : groupOf(part))).join(''));
  return new RegExp(`^${segments.join('/')}$`, 's');
}

/** A number in its one form: no leading zeros but those of its own width, so that no two names mean the same row. */
function groupOf({ field, digits }: Exclude<Part, string>): string {
  if (!NUMBERS.includes(field)) return `(?<${field}>[^/.][^/]*?)`;
  if (digits === 0) return `(?<${field}>0|[1-9]\\d{0,14})`;
  return digits === DIGITS_MAX ? `(?<${field}>\\d{15})` : `(?<${field}>\\d{${digits}}|[1-9]\\d{${digits},14})`;
}

function escaped(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');
}
